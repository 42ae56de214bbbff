"""Which offsets and groups nobody needs any more.

Offsets are kept while somebody reads. Their retention begins when the group becomes empty, and again with each commit:
whoever corrects the offsets of an empty group has the whole retention to start its consumers. (Kafka counts from the
empty group alone.) A simple group commits without having members, so there each offset expires by its own commit. In a
group with members, offsets of topics that it no longer reads expire by their commit too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.group import Group, group_tombstones
from headrace.coordinators.records import LogRecord
from headrace.model.names import NO_TIMESTAMP, Millis, TopicPartition
from headrace.wire.messages.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets


class ExpiryStep(NamedTuple):
    """What was looked at in one go."""

    tombstones: list[LogRecord]
    looked_at: int
    """Groups and offsets: what it cost."""


class _Idle(NamedTuple):
    """What of a group nobody reads, and since when."""

    read_topics: Set[str]
    since_ms: Millis


def expire_in_steps(
    groups: Mapping[str, Group], offsets: CommittedOffsets, now_ms: Millis, retention_ms: int
) -> Iterator[ExpiryStep]:
    """All groups as they are now, step by step. Records may be applied between two steps.

    A group goes once its last offset is gone, so the next time.
    """
    for group_id in list(dict.fromkeys([*groups, *offsets.groups()])):
        group = groups.get(group_id)
        yield ExpiryStep(_tombstones_if_unused(group, offsets), looked_at=1)
        for topic in offsets.topics(group_id):
            yield _expire_topic(group_id, topic, groups.get(group_id), offsets, now_ms, retention_ms)


def offset_tombstone(group_id: str, place: TopicPartition) -> LogRecord:
    return LogRecord(OffsetCommitKey(group_id, place.topic, place.partition), None)


def _tombstones_if_unused(group: Group | None, offsets: CommittedOffsets) -> list[LogRecord]:
    # A group with a deadline expects somebody, even if nobody has joined it yet.
    if group is None or not group.is_empty or group.next_deadline_ms() is not None or offsets.has_any(group.group_id):
        return []
    return group_tombstones(group)


def _expire_topic(
    group_id: str, topic: str, group: Group | None, offsets: CommittedOffsets, now_ms: Millis, retention_ms: int
) -> ExpiryStep:
    idle = _idle(group)
    if idle is None or topic in idle.read_topics:
        return ExpiryStep([], looked_at=1)
    tombstones = []
    looked_at = 0
    for partition, committed_ms, expires_ms in offsets.times(group_id, topic):
        looked_at += 1
        if _is_over(max(committed_ms, idle.since_ms), expires_ms, now_ms, retention_ms):
            place = TopicPartition(topic, partition)
            if not offsets.is_unstable(group_id, place):
                tombstones.append(offset_tombstone(group_id, place))
    return ExpiryStep(tombstones, looked_at)


def _idle(group: Group | None) -> _Idle | None:
    """None if all of its offsets may be in use."""
    if group is None:
        return _Idle(frozenset(), NO_TIMESTAMP)
    if group.is_empty:
        return _Idle(frozenset(), NO_TIMESTAMP if group.empty_since_ms is None else group.empty_since_ms)
    if isinstance(group, ClassicGroup) and group.state_name != "Stable":
        return None  # in the middle of a rebalance nobody knows who will read what
    read_topics = group.subscribed_topics()
    return None if read_topics is None else _Idle(read_topics, NO_TIMESTAMP)


def _is_over(since_ms: Millis, expires_ms: Millis, now_ms: Millis, retention_ms: int) -> bool:
    return now_ms >= expires_ms if expires_ms != NO_TIMESTAMP else now_ms - since_ms >= retention_ms
