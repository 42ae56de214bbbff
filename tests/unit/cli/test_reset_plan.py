from __future__ import annotations

import pytest

from headrace.cli.groups.reset_plan import Goal, PlannedReset, ShiftBy, TopicScope, parse_scope, plan_reset
from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge
from headrace.model.names import TopicPartition

NAME = TopicPartition("events", 3)


@pytest.mark.parametrize(
    ("goal", "old", "found", "new", "note"),
    [
        (Edge.EARLIEST, 50, None, 10, ""),
        (Edge.LATEST, None, None, 100, ""),
        (70, 50, None, 70, ""),
        (10, 50, None, 10, ""),
        (100, 50, None, 100, ""),
        (9, 50, None, 10, "9 lies before the log: its first offset"),
        (101, 50, None, 100, "101 lies past the log: its end"),
        (ShiftBy(5), 50, None, 55, ""),
        (ShiftBy(-5), 50, None, 45, ""),
        (ShiftBy(-500), 50, None, 10, "-450 lies before the log: its first offset"),
        (ShiftBy(500), 50, None, 100, "550 lies past the log: its end"),
        (ShiftBy(1), None, None, None, "no position to shift"),
        (AtTime(1_700_000_000_000), 50, 42, 42, ""),
        (AtTime(1_700_000_000_000), 50, None, 100, "no message is that late: the end"),
    ],
)
def test_a_move_stays_within_the_log_and_says_so(
    goal: Goal, old: int | None, found: int | None, new: int | None, note: str
) -> None:
    assert plan_reset(NAME, goal, old=old, first=10, end=100, found=found) == PlannedReset(NAME, old, new, note)


@pytest.mark.parametrize(
    ("old", "new", "is_change"), [(None, 5, True), (5, 5, False), (4, 5, True), (None, None, False)]
)
def test_only_a_new_position_is_a_change(old: int | None, new: int | None, is_change: bool) -> None:
    assert PlannedReset(NAME, old, new).is_change is is_change


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("events", TopicScope("events", ())),
        ("events:0", TopicScope("events", (0,))),
        ("a.b-c_d:2,0,2", TopicScope("a.b-c_d", (0, 2))),
    ],
)
def test_topics_and_some_of_their_partitions(text: str, scope: TopicScope) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize("text", ["", ":1", "events:", "events:x", "events:1,", "events:-1", "events:1:2", "events:²"])
def test_what_is_neither(text: str) -> None:
    with pytest.raises(ValueError, match="expected a topic"):
        parse_scope(text)


def test_a_scope_holds_all_or_some_partitions() -> None:
    assert TopicScope("events", ()).holds(NAME)
    assert TopicScope("events", (1, 3)).holds(NAME)
    assert not TopicScope("events", (1,)).holds(NAME)
    assert not TopicScope("others", ()).holds(NAME)
