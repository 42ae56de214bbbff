"""The judge of the group tests must itself be able to say no."""

from __future__ import annotations

import pytest

from tests.clients.group_clients import Place
from tests.clients.group_history import Event, GroupHistory, Kind

FIRST, SECOND = Place("topic", 0), Place("topic", 1)


def history_of(*events: tuple[str, Kind, Place] | tuple[str, Kind]) -> GroupHistory:
    """These events, a second apart."""
    history = GroupHistory()
    for at_s, (member, kind, *places) in enumerate(events):
        history.add(Event(float(at_s), member, kind, tuple(places)))
    return history


@pytest.mark.parametrize("end", [Kind.GAVE_UP, Kind.LOST])
def test_what_one_has_given_up_another_may_gain(end: Kind) -> None:
    history = history_of(("a", Kind.GAINED, FIRST), ("a", end, FIRST), ("b", Kind.GAINED, FIRST))
    assert history.owned() == {"b": {FIRST}}


def test_two_owners_at_one_moment_are_noticed() -> None:
    history = history_of(("a", Kind.GAINED, FIRST), ("b", Kind.GAINED, FIRST), ("a", Kind.GAVE_UP, FIRST))
    with pytest.raises(AssertionError, match=r"b gained .*, which a had"):
        history.owned()


def test_events_count_by_their_time_however_they_arrive() -> None:
    history = GroupHistory()
    history.add(Event(3.0, "b", Kind.GAINED, (FIRST,)))
    history.add(Event(2.0, "a", Kind.GAVE_UP, (FIRST,)))
    history.add(Event(1.0, "a", Kind.GAINED, (FIRST,)))
    assert history.owned() == {"b": {FIRST}}


def test_whoever_is_gone_owns_nothing_even_if_it_does_not_know() -> None:
    history = history_of(
        ("a", Kind.GAINED, FIRST), ("a", Kind.GAINED, SECOND), ("a", Kind.GONE), ("b", Kind.GAINED, FIRST),
        ("a", Kind.LOST, FIRST),
    )  # fmt: skip
    assert history.owned() == {"b": {FIRST}}


def test_what_was_missed_and_what_was_read_twice() -> None:
    history = GroupHistory()
    for offset in (0, 1, 1, 3):
        history.add(Event(float(offset), "a", Kind.READ, (FIRST,), offset))
    assert history.missing([(FIRST, offset) for offset in range(4)]) == [(FIRST, 2)]
    assert history.twice() == [(FIRST, 1)]
