from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinators.deadlines import LEFT_OVER_MAX, Deadlines

KEYS = st.sampled_from([("a",), ("b",), ("c",)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 20)),
        st.tuples(st.just("cancel"), KEYS),
        st.tuples(st.just("take"), st.integers(0, 20)),
    ),
    max_size=30,
)


@given(STEPS)
def test_against_a_dictionary(steps: list[tuple[str, ...]]) -> None:
    deadlines: Deadlines[tuple[str, ...]] = Deadlines()
    model: dict[tuple[str, ...], int] = {}
    for step in steps:
        match step:
            case ("set", key, due_ms):
                deadlines.set(key, due_ms)
                model[key] = due_ms
            case ("cancel", key):
                deadlines.cancel(key)
                model.pop(key, None)
            case ("take", now_ms):
                due = sorted((due_ms, key) for key, due_ms in model.items() if due_ms <= now_ms)
                assert deadlines.take_due(now_ms) == [key for _, key in due]
                for _, key in due:
                    del model[key]
        assert deadlines.next_ms() == min(model.values(), default=None)


def test_what_was_cancelled_does_not_pile_up() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for number in range(10 * LEFT_OVER_MAX):
        deadlines.set("busy", number)
        deadlines.cancel("busy")
    assert len(deadlines._heap) <= LEFT_OVER_MAX + 2
    deadlines.set("busy", 7)
    deadlines.set("other", 3)
    assert deadlines.take_due(2) == []
    assert [deadlines.take_due(9, 1), deadlines.take_due(9, 1), deadlines.take_due(9)] == [["other"], ["busy"], []]
