"""How groups, their members and their lag are shown. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from headrace.cli.terminal.output import duration_text, plural, printable, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.client.admin.groups import GroupDescription, GroupMember, PartitionLag
    from headrace.model.names import TopicPartition

UNKNOWN = "unknown"
NOBODY = "Nobody"


def member_lines(group: GroupDescription, lags: Sequence[PartitionLag]) -> list[str]:
    """One line per member: `Consumer-1: Partitions [0, 1], Lag: 100`. Partitions that nobody reads come last."""
    by_partition = {lag.partition: lag for lag in lags}
    labels = member_labels(group.members)
    is_one_topic = len({name.topic for name in [*by_partition, *_assigned(group)]}) <= 1
    lines = []
    for member in sorted(group.members, key=lambda member: labels[member.member_id]):
        own = [by_partition.pop(name) for name in member.partitions if name in by_partition]
        lines.append(_member_line(labels[member.member_id], member.partitions, own, is_one_topic))
    if by_partition:
        lines.append(_member_line(NOBODY, list(by_partition), list(by_partition.values()), is_one_topic))
    return lines


def member_labels(members: Sequence[GroupMember]) -> dict[str, str]:
    """What to call each member, by member id: its instance id, its client id if no other has it, or its member id."""
    client_ids = Counter(member.client_id for member in members)
    labels = {}
    for member in members:
        is_telling = bool(member.client_id) and client_ids[member.client_id] == 1
        labels[member.member_id] = member.instance_id or (member.client_id if is_telling else member.member_id)
    return labels


def total_lag_text(lags: Sequence[PartitionLag]) -> str:
    """`100`; where the lag of some partitions is unknown it says for how many."""
    known = [lag.lag for lag in lags if lag.lag is not None]
    missing = len(lags) - len(known)
    if not missing:
        return str(sum(known))
    return f"{sum(known)} ({UNKNOWN} for {plural(missing, 'partition')})" if known else UNKNOWN


def lag_table(group: GroupDescription, lags: Sequence[PartitionLag]) -> str:
    """Everything about each partition."""
    columns = ("TOPIC", "PARTITION", "CURRENT", "END", "LAG", "LAG TIME", "MEMBER", "HOST", "CLIENT ID")
    labels = member_labels(group.members)
    rows = []
    for lag in lags:
        member = lag.member
        owner = (None, None, None) if member is None else (labels[member.member_id], member.host, member.client_id)
        rows.append((*_lag_cells(lag), *owner))
    return table(columns, rows)


def short_lag_table(lags: Sequence[PartitionLag]) -> str:
    """How far behind each partition is."""
    return table(("TOPIC", "PARTITION", "CURRENT", "END", "LAG", "LAG TIME"), [_lag_cells(lag) for lag in lags])


def lag_summary(group_id: str, lags: Sequence[PartitionLag]) -> str:
    ages_ms = [lag.lag_ms for lag in lags if lag.lag_ms is not None]
    oldest = f", the oldest unread message is {duration_text(max(ages_ms))} old" if any(ages_ms) else ""
    return f"lag of {group_id}: {total_lag_text(lags)}{oldest}"


def lag_facts(lag: PartitionLag) -> dict[str, Any]:
    """One partition, ready for JSON. What is unknown is null."""
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "current_offset": lag.committed,
        "first_offset": lag.start,
        "end_offset": lag.end,
        "lag": lag.lag,
        "lag_ms": lag.lag_ms,
        "member_id": None if lag.member is None else lag.member.member_id,
    }


def group_facts(group: GroupDescription, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": group.coordinator,
        "assignor": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": name.topic, "partition": name.partition} for name in sorted(member.partitions)
                ],
            }
            for member in group.members
        ],
        "partitions": [lag_facts(lag) for lag in lags],
    }


def _assigned(group: GroupDescription) -> list[TopicPartition]:
    return [name for member in group.members for name in member.partitions]


def _member_line(
    label: str, partitions: Sequence[TopicPartition], lags: Sequence[PartitionLag], is_one_topic: bool
) -> str:
    names = [str(name.partition) if is_one_topic else str(name) for name in sorted(partitions)]
    return f"{printable(label)}: Partitions [{', '.join(names)}], Lag: {total_lag_text(lags)}"


def _lag_cells(lag: PartitionLag) -> tuple[object, ...]:
    return (
        lag.partition.topic,
        lag.partition.partition,
        lag.committed,
        lag.end,
        UNKNOWN if lag.lag is None else lag.lag,
        UNKNOWN if lag.lag_ms is None else duration_text(lag.lag_ms),
    )
