"""Resets the positions of a group: finds the partitions, plans each reset, commits them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.groups.reset_plan import ShiftBy, plan_reset
from headrace.cli.terminal.complaints import Complaint
from headrace.cli.terminal.output import talk
from headrace.cli.terminal.timestamps import parse_timestamp
from headrace.client.admin.groups import GroupAdmin
from headrace.client.connections.cluster import no_such_partition
from headrace.client.reading.consumer import AtTime
from headrace.client.reading.offsets import Edge, find_bounds, find_offsets
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.cli.groups.reset_plan import Goal, PlannedReset, TopicScope
    from headrace.client.connections.cluster import Cluster

WITHOUT_MEMBERS = ("Empty", "Dead")  # states in which nobody else decides where the group is


def target_of(
    to_earliest: bool, to_latest: bool, to_datetime: str | None, to_offset: int | None, shift_by: int | None
) -> Goal:
    """The one place that was asked for."""
    goals: list[Goal] = []
    if to_earliest:
        goals.append(Edge.EARLIEST)
    if to_latest:
        goals.append(Edge.LATEST)
    if to_offset is not None:
        goals.append(to_offset)
    if shift_by is not None:
        goals.append(ShiftBy(shift_by))
    if to_datetime is not None:
        try:
            goals.append(AtTime(parse_timestamp(to_datetime)))
        except ValueError as wrong:
            raise click.BadParameter(
                f"{to_datetime!r}; expected an ISO 8601 date from 1970 on, as in 2026-01-31T09:30:00",
                param_hint="--to-datetime",
            ) from wrong
    if len(goals) != 1:
        raise click.UsageError("give exactly one of --to-earliest, --to-latest, --to-datetime, --to-offset, --shift-by")
    return goals[0]


async def reset_group(
    cluster: Cluster, group_id: str, scopes: Sequence[TopicScope], goal: Goal, *, is_dry_run: bool
) -> list[PlannedReset]:
    """All resets, made unless this is a dry run. Without scopes: wherever the group has a position."""
    admin = GroupAdmin(cluster)
    await _refuse_unless_idle(admin, group_id)
    committed = await admin.offsets(group_id)
    partitions = await _chosen(cluster, scopes) if scopes else await _still_there(cluster, committed)
    if not partitions:
        raise Complaint(f"group {group_id!r} has no positions yet", "say with --topic what it is to read")
    bounds = await find_bounds(cluster, partitions)
    found: dict[TopicPartition, int | None] = {}
    if isinstance(goal, AtTime):
        places = await find_offsets(cluster, dict.fromkeys(partitions, goal.timestamp_ms))
        found = {name: place.offset if place.offset >= 0 else None for name, place in places.items()}
    resets = []
    for name in partitions:
        first, end = bounds[name]
        old = committed[name].offset if name in committed else None
        resets.append(plan_reset(name, goal, old=old, first=first, end=end, found=found.get(name)))
    changes = {reset.partition: reset.new for reset in resets if reset.new is not None and reset.is_change}
    if changes and not is_dry_run:
        await admin.commit(group_id, changes)
    return resets


async def _refuse_unless_idle(admin: GroupAdmin, group_id: str) -> None:
    """Told before anything is looked up, and for a dry run too. The commit itself would be refused all the same."""
    try:
        group = await admin.describe(group_id)
    except Refusal as refusal:
        if refusal.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        talk(f"group {group_id} does not exist yet")
        return
    if group.members or group.state not in WITHOUT_MEMBERS:
        message = f"group {group_id!r} is active ({group.state}, members: {len(group.members)})"
        raise Refusal(ErrorCode.NON_EMPTY_GROUP, message)


async def _chosen(cluster: Cluster, scopes: Sequence[TopicScope]) -> list[TopicPartition]:
    chosen: dict[TopicPartition, None] = {}
    for scope in scopes:
        topic = await cluster.topic(scope.topic)
        for index in scope.partitions or range(len(topic.partitions)):
            if index >= len(topic.partitions):
                raise no_such_partition(topic, index)
            chosen[TopicPartition(scope.topic, index)] = None
    return sorted(chosen)


async def _still_there(cluster: Cluster, committed: Collection[TopicPartition]) -> list[TopicPartition]:
    """Positions outlive their topics for a while; those cannot be moved."""
    topics = (await cluster.full_view()).topics
    gone = sorted({name.topic for name in committed if name.topic not in topics})
    if gone:
        talk(f"passed over topics that are gone: {', '.join(gone)}")
    return sorted(name for name in committed if name.topic in topics)
