from __future__ import annotations

from headrace.cli.groups.text import (
    group_facts,
    lag_facts,
    lag_summary,
    lag_table,
    member_labels,
    member_lines,
    short_lag_table,
    total_lag_text,
)
from headrace.client.admin.groups import GroupDescription, GroupMember, PartitionLag
from headrace.model.names import NodeId, TopicPartition


def names(*texts: str) -> list[TopicPartition]:
    """`events-0` and so on."""
    return [TopicPartition(topic, int(index)) for topic, _, index in (text.rpartition("-") for text in texts)]


def member(
    member_id: str, *partitions: str, client_id: str = "Consumer-1", instance_id: str | None = None
) -> GroupMember:
    return GroupMember(member_id, instance_id, client_id, "/10.0.0.7", names(*partitions))


def group(*members: GroupMember) -> GroupDescription:
    return GroupDescription("my-group", "classic", "Stable", NodeId(1), "range", list(members))


def lag(
    name: str, behind: int | None, owner: GroupMember | None = None, lag_ms: int | None = None, end: int = 1000
) -> PartitionLag:
    committed = None if behind is None else end - behind
    return PartitionLag(names(name)[0], committed, end, 0, behind, 0 if behind == 0 else lag_ms, owner)


ONE = member("m1", "events-0", "events-1")
TWO = member("m2", "events-2", client_id="Consumer-2")


def test_members_are_shown_as_the_design_document_shows_them() -> None:
    lags = [lag("events-0", 60, ONE), lag("events-1", 40, ONE), lag("events-2", 0, TWO)]
    assert member_lines(group(TWO, ONE), lags) == [
        "Consumer-1: Partitions [0, 1], Lag: 100",
        "Consumer-2: Partitions [2], Lag: 0",
    ]


def test_partitions_that_nobody_reads_come_last() -> None:
    assert member_lines(group(), [lag("events-0", 3), lag("events-1", 4)]) == ["Nobody: Partitions [0, 1], Lag: 7"]
    assert member_lines(group(TWO), [lag("events-0", 3), lag("events-2", 4, TWO)]) == [
        "Consumer-2: Partitions [2], Lag: 4",
        "Nobody: Partitions [0], Lag: 3",
    ]


def test_several_topics_are_named() -> None:
    both = member("m1", "users-0", "events-10", "events-9")
    lags = [lag("events-9", 1, both), lag("events-10", 2, both), lag("users-0", 3, both)]
    assert member_lines(group(both), lags) == ["Consumer-1: Partitions [events-9, events-10, users-0], Lag: 6"]


def test_a_member_without_partitions_and_a_group_without_anything() -> None:
    assert member_lines(group(member("m1")), []) == ["Consumer-1: Partitions [], Lag: 0"]
    assert member_lines(group(), []) == []


def test_a_label_tells_members_apart() -> None:
    alike = [member("m1"), member("m2")]
    assert member_labels(alike) == {"m1": "m1", "m2": "m2"}
    assert member_labels([*alike, member("m3", instance_id="till-3")])["m3"] == "till-3"
    assert member_labels([member("m1", client_id="")]) == {"m1": "m1"}


def test_unknown_lag_is_never_shown_as_zero() -> None:
    assert total_lag_text([]) == "0"
    assert total_lag_text([lag("events-0", None)]) == "unknown"
    assert total_lag_text([lag("events-0", 0), lag("events-1", None)]) == "0 (unknown for 1 partition)"
    assert member_lines(group(ONE), [lag("events-0", None, ONE), lag("events-1", 5, ONE)]) == [
        "Consumer-1: Partitions [0, 1], Lag: 5 (unknown for 1 partition)"
    ]
    assert lag_facts(lag("events-0", None))["lag"] is None


def test_the_table_has_everything() -> None:
    lags = [lag("events-0", 60, ONE, 12_000), lag("events-1", None, ONE), lag("events-2", 0)]
    assert lag_table(group(ONE), lags).splitlines() == [
        "TOPIC   PARTITION  CURRENT   END      LAG  LAG TIME  MEMBER      HOST       CLIENT ID",
        "events          0      940  1000       60  12 s      Consumer-1  /10.0.0.7  Consumer-1",
        "events          1        -  1000  unknown  unknown   Consumer-1  /10.0.0.7  Consumer-1",
        "events          2     1000  1000        0  0 s       -           -          -",
    ]
    assert short_lag_table(lags).splitlines()[1] == "events          0      940  1000       60  12 s"


def test_the_summary_names_the_oldest() -> None:
    lags = [lag("events-0", 60, lag_ms=12_000), lag("events-1", 1, lag_ms=300_000), lag("events-2", 1)]
    assert lag_summary("g", lags) == "lag of g: 62, the oldest unread message is 5 min old"
    assert lag_summary("g", [lag("events-0", 0)]) == "lag of g: 0"


def test_facts_for_programs() -> None:
    facts = group_facts(group(ONE), [lag("events-0", 60, ONE, 12_000)])
    assert facts["members"][0]["partitions"] == [
        {"topic": "events", "partition": 0},
        {"topic": "events", "partition": 1},
    ]
    assert facts["partitions"] == [
        {
            "topic": "events",
            "partition": 0,
            "current_offset": 940,
            "first_offset": 0,
            "end_offset": 1000,
            "lag": 60,
            "lag_ms": 12_000,
            "member_id": "m1",
        }
    ]
