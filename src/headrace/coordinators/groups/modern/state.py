"""What a KIP-848 group keeps in the log, and a draft of what a command makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.coordinators.groups.modern.members import (
    CurrentAssignment,
    Member,
    current_assignment_from,
    metadata_from,
    partitions_of,
)
from headrace.wire.messages import group_records as records

if TYPE_CHECKING:
    from headrace.coordinators.records import LogRecord
    from headrace.model.names import LogId


class ModernState:
    """Built from records alone; only `apply` changes it.

    A compacted log holds only the last record of each key, so a member's three records may come in any order. What is
    known of a member before its metadata arrives waits for it; two members may seem to own a partition for a while.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """Rises with each change of members, subscriptions or topics. 0 before the first."""
        self.metadata_hash = 0
        """Of the subscribed topics as they were at that epoch."""
        self.target_epoch = 0
        """The epoch that `targets` was made for. Behind `epoch` if a new target is due."""
        self.members: dict[str, Member] = {}
        self.targets: dict[str, frozenset[LogId]] = {}
        self.static_members: dict[str, str] = {}
        """The member id behind each instance id."""
        self._occupants: dict[LogId, str] = {}

    def copy(self) -> ModernState:
        twin = ModernState()
        twin.epoch, twin.metadata_hash, twin.target_epoch = self.epoch, self.metadata_hash, self.target_epoch
        twin.members = self.members.copy()
        twin.targets = self.targets.copy()
        twin.static_members = self.static_members.copy()
        twin._occupants = self._occupants.copy()
        return twin

    def occupant_of(self, log_id: LogId) -> str | None:
        """The member that owns it or was told to give it up."""
        return self._occupants.get(log_id)

    def apply(self, record: LogRecord) -> None:
        key, value = record
        match key:
            case records.ConsumerGroupMetadataKey():
                self.epoch = 0 if value is None else value.epoch
                self.metadata_hash = 0 if value is None else value.metadata_hash
            case records.ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = 0 if value is None else value.assignment_epoch
            case records.ConsumerGroupTargetAssignmentMemberKey():
                if value is None:
                    self.targets.pop(key.member_id, None)
                else:
                    self.targets[key.member_id] = partitions_of(value.topic_partitions)
            case records.ConsumerGroupMemberMetadataKey():
                self._apply_metadata(key.member_id, value)
            case records.ConsumerGroupCurrentMemberAssignmentKey():
                self._apply_current(key.member_id, value)
            case _:
                raise AssertionError(f"a {type(key).__name__} is no record of a KIP-848 group")

    def _apply_metadata(self, member_id: str, value: records.ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id, Member(member_id))
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if value is None:
            self._occupy(member, CurrentAssignment())
            self.members.pop(member_id, None)
            return
        self.members[member_id] = member = replace(member, metadata=metadata_from(value))
        if member.metadata.instance_id is not None:
            self.static_members[member.metadata.instance_id] = member_id

    def _apply_current(self, member_id: str, value: records.ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        if value is None and member_id not in self.members:
            return
        member = self.members.get(member_id, Member(member_id))
        current = CurrentAssignment() if value is None else current_assignment_from(value)
        self._occupy(member, current)
        self.members[member_id] = replace(member, current=current)

    def _occupy(self, member: Member, current: CurrentAssignment) -> None:
        for log_id in member.current.occupied - current.occupied:
            if self._occupants.get(log_id) == member.member_id:
                del self._occupants[log_id]
        for log_id in current.occupied:
            self._occupants[log_id] = member.member_id


class Draft:
    """The state as it will be once the records that a command has written so far are applied."""

    def __init__(self, state: ModernState) -> None:
        self.state = state
        """Not changed; a copy takes its place with the first record."""
        self.records: list[LogRecord] = []

    def write(self, record: LogRecord) -> None:
        if not self.records:
            self.state = self.state.copy()
        self.records.append(record)
        self.state.apply(record)
