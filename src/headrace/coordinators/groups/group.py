"""A group of either kind, where it does not matter which."""

from __future__ import annotations

from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.records import LogRecord
from headrace.wire.messages.group_records import GroupMetadataKey

Group = ClassicGroup | ModernGroup


def group_tombstones(group: Group) -> list[LogRecord]:
    if isinstance(group, ModernGroup):
        return group.tombstones()
    return [LogRecord(GroupMetadataKey(group.group_id), None)]
