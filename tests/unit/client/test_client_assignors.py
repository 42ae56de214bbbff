from __future__ import annotations

import pytest

from headrace.client.groups.assignors import (
    ASSIGNORS,
    COOPERATIVE_STICKY,
    Assignment,
    Assignor,
    Member,
    assign_in_turns,
    assign_ranges,
    assign_sticky,
)
from headrace.model.names import TopicPartition


def member(
    name: str, topics: str = "t", owned: str = "", generation_id: int = 1, instance: str | None = None
) -> Member:
    return Member(name, instance, frozenset(topics), parts(owned), generation_id)


def parts(text: str) -> tuple[TopicPartition, ...]:
    """`t0 t1` as partitions."""
    return tuple(TopicPartition(word[0], int(word[1:])) for word in text.split())


def shown(assignment: Assignment) -> dict[str, str]:
    return {
        name: " ".join(f"{part.topic}{part.partition}" for part in share) for name, share in sorted(assignment.items())
    }


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [
        ([member("a"), member("b")], {"t": 3}, {"a": "t0 t1", "b": "t2"}),
        ([member("b", "tu"), member("a", "tu")], {"t": 3, "u": 3}, {"a": "t0 t1 u0 u1", "b": "t2 u2"}),
        ([member("a"), member("b"), member("c")], {"t": 2}, {"a": "t0", "b": "t1", "c": ""}),
        ([member("a", "tu"), member("b", "t")], {"t": 2, "u": 2}, {"a": "t0 u0 u1", "b": "t1"}),
        (
            [member("z", instance="i1"), member("a", instance="i2"), member("b")],
            {"t": 3},
            {"z": "t0", "a": "t1", "b": "t2"},
        ),
        ([member("a")], {"t": 0}, {"a": ""}),
    ],
    ids=[
        "rest to the first",
        "topics side by side",
        "more members than partitions",
        "uneven wishes",
        "static",
        "empty",
    ],
)
def test_ranges(members: list[Member], counts: dict[str, int], expected: dict[str, str]) -> None:
    assert shown(assign_ranges(members, counts)) == dict(sorted(expected.items()))


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [
        ([member("a", "tu"), member("b", "tu")], {"t": 3, "u": 3}, {"a": "t0 t2 u1", "b": "t1 u0 u2"}),
        ([member("a", "tu"), member("b", "t")], {"t": 2, "u": 2}, {"a": "t0 u0 u1", "b": "t1"}),
    ],
    ids=["all in a row", "uneven wishes"],
)
def test_turns(members: list[Member], counts: dict[str, int], expected: dict[str, str]) -> None:
    assert shown(assign_in_turns(members, counts)) == expected


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [
        ([member("a"), member("b")], {"t": 4}, {"a": "t0 t2", "b": "t1 t3"}),
        ([member("a", owned="t0 t1 t2 t3"), member("b", generation_id=-1)], {"t": 4}, {"a": "t0 t1", "b": ""}),
        ([member("a", owned="t0 t1"), member("b")], {"t": 4}, {"a": "t0 t1", "b": "t2 t3"}),
        ([member("a", owned="t0 t1"), member("b", owned="t2")], {"t": 3}, {"a": "t0 t1", "b": "t2"}),
        (
            [member("a", owned="t0", generation_id=5), member("b", owned="t0 t1", generation_id=4)],
            {"t": 2},
            {"a": "t0", "b": "t1"},
        ),
        ([member("a", owned="t0"), member("b", owned="t0 t1")], {"t": 2}, {"a": "t0", "b": "t1"}),
        ([member("a", owned="t0 t7")], {"t": 1}, {"a": "t0"}),
    ],
    ids=[
        "from nothing",
        "what moves is given to nobody yet",
        "what was given up is given",
        "nothing moves without need",
        "the later claim is right",
        "of two claims in one generation none is",
        "what is gone is gone",
    ],
)
def test_sticky(members: list[Member], counts: dict[str, int], expected: dict[str, str]) -> None:
    assert shown(assign_sticky(members, counts)) == expected


def test_sticky_moves_a_partition_in_two_rounds() -> None:
    counts = {"t": 4}
    first = assign_sticky([member("a", owned="t0 t1 t2 t3"), member("b")], counts)
    second = assign_sticky(
        [member(name)._replace(owned=tuple(share), generation_id=2) for name, share in first.items()], counts
    )
    assert shown(second) == {"a": "t0 t1", "b": "t2 t3"}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_a_topic_that_nobody_reads_is_given_to_nobody(assign: Assignor) -> None:
    assert shown(assign([member("a")], {"t": 1, "u": 5})) == {"a": "t0"}


def test_names_are_those_that_other_clients_use() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "cooperative-sticky"]
    assert ASSIGNORS[COOPERATIVE_STICKY] is assign_sticky
