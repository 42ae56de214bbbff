"""A member of a KIP-848 group: what it told us, and how far it has come towards what it is to own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from headrace.coordinators.records import LogRecord
from headrace.model.names import LogId
from headrace.wire.messages import group_records as records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.coordinators.effects import Caller
    from headrace.model.names import TopicId
    from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that means to be back within its session. Its assignment waits for it."""

NO_PARTITIONS: Final[frozenset[LogId]] = frozenset()

T = TypeVar("T")


class MemberState(IntEnum):
    """Where a member stands between what it owns and what it is to own. The numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up, and has not yet said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It owns what it can. Others still own the rest."""
    UNKNOWN = 127
    """A state that only a later version knows. The member begins anew."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls(cls.UNKNOWN)


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member told us about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Subscribed to; sorted, each once."""
    topic_regex: str = ""
    """Subscribed to as well; empty if there is none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None

    def told(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> MemberMetadata:
        """What we know after a heartbeat. What it leaves out stays as it was."""
        names = request.subscribed_topic_names
        timeout_ms = request.rebalance_timeout_ms
        return MemberMetadata(
            instance_id=_told(request.instance_id, self.instance_id),
            rack_id=_told(request.rack_id, self.rack_id),
            client_id=caller.client_id,
            client_host=caller.host,
            topic_names=self.topic_names if names is None else tuple(sorted(set(names))),
            topic_regex=_told(request.subscribed_topic_regex, self.topic_regex),
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            server_assignor=_told(request.server_assignor, self.server_assignor),
        )

    @property
    def subscription(self) -> tuple[tuple[str, ...], str]:
        return self.topic_names, self.topic_regex


def _told(value: T | None, known: T) -> T:
    return known if value is None else value


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member owns, and at which epoch."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: frozenset[LogId] = NO_PARTITIONS
    pending_revocation: frozenset[LogId] = NO_PARTITIONS
    """Assigned before, and to be given up. Nobody else may have them yet."""

    @property
    def occupied(self) -> frozenset[LogId]:
        """What nobody else may be given: this member may be reading it."""
        return self.assigned | self.pending_revocation

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def at_epoch(self, epoch: int) -> CurrentAssignment:
        """The epoch that it leaves is remembered, for the answer with the new one may get lost."""
        return self if epoch == self.epoch else replace(self, epoch=epoch, previous_epoch=self.epoch)


@dataclass(frozen=True, slots=True)
class Member:
    """Never changed in place: a command makes the next one, and `apply` puts it where the last one was."""

    member_id: str
    metadata: MemberMetadata = field(default_factory=MemberMetadata)
    current: CurrentAssignment = field(default_factory=CurrentAssignment)


# In the log a member is three records: its metadata, what it is to own, what it owns now.


def metadata_record(group_id: str, member: Member) -> LogRecord:
    metadata = member.metadata
    return LogRecord(
        records.ConsumerGroupMemberMetadataKey(group_id, member.member_id),
        records.ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=list(metadata.topic_names),
            subscribed_topic_regex=metadata.topic_regex,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.server_assignor,
        ),
    )


def metadata_from(value: records.ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    return MemberMetadata(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
    )


def target_record(group_id: str, member_id: str, target: frozenset[LogId]) -> LogRecord:
    return LogRecord(
        records.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        records.ConsumerGroupTargetAssignmentMemberValue(by_topic(target, records.TargetTopicPartitions)),
    )


def current_assignment_record(group_id: str, member: Member) -> LogRecord:
    current = member.current
    return LogRecord(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state,
            assigned_partitions=by_topic(current.assigned, records.CurrentTopicPartitions),
            partitions_pending_revocation=by_topic(current.pending_revocation, records.CurrentTopicPartitions),
        ),
    )


def current_assignment_from(value: records.ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=partitions_of(value.assigned_partitions),
        pending_revocation=partitions_of(value.partitions_pending_revocation),
    )


def forget_member(group_id: str, member_id: str) -> list[LogRecord]:
    """Kafka's order: the member itself goes last."""
    return [
        LogRecord(records.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        LogRecord(records.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        LogRecord(records.ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


class TopicPartitions(Protocol):
    """A topic and some of its partitions: each message has a class of its own for it."""

    topic_id: TopicId
    partitions: list[int]


def partitions_of(topics: Iterable[TopicPartitions]) -> frozenset[LogId]:
    return frozenset(LogId(topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def by_topic(log_ids: Iterable[LogId], make: Callable[[TopicId, list[int]], T]) -> list[T]:
    """The same partitions topic by topic, in order."""
    return [
        make(topic_id, [log_id.partition for log_id in of_topic])
        for topic_id, of_topic in groupby(sorted(log_ids), key=itemgetter(0))
    ]
