"""A KIP-848 group as ConsumerGroupDescribe shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.groups.modern.members import NO_PARTITIONS, by_topic
from headrace.coordinators.groups.modern.target_assignment import preferred_assignor
from headrace.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from headrace.wire.messages.consumer_group_describe import Member as DescribedMember

if TYPE_CHECKING:
    from headrace.coordinators.groups.modern.members import Member
    from headrace.coordinators.groups.modern.state import ModernState
    from headrace.coordinators.groups.topics import Topics
    from headrace.model.names import LogId

MEMBER_OF_THIS_PROTOCOL: Final = 1
"""As opposed to 0, a classic member in the same group."""


def state_name(state: ModernState) -> str:
    if not state.members:
        return "Empty"
    if state.epoch > state.target_epoch:
        return "Assigning"
    if all(member.current.is_reconciled_to(state.target_epoch) for member in state.members.values()):
        return "Stable"
    return "Reconciling"


def described_group(group_id: str, state: ModernState, topics: Topics) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        group_state=state_name(state),
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=preferred_assignor(state.members.values()),
        members=[
            _described_member(state.members[member_id], state.targets.get(member_id, NO_PARTITIONS), topics)
            for member_id in sorted(state.members)
        ],
    )


def _described_member(member: Member, target: frozenset[LogId], topics: Topics) -> DescribedMember:
    metadata, current = member.metadata, member.current
    return DescribedMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=current.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.topic_names),
        subscribed_topic_regex=metadata.topic_regex,
        assignment=_described_assignment(current.assigned, topics),
        target_assignment=_described_assignment(target, topics),
        member_type=MEMBER_OF_THIS_PROTOCOL,
    )


def _described_assignment(log_ids: frozenset[LogId], topics: Topics) -> Assignment:
    """Topics that were deleted have no name any more, and are left out."""
    assignment = Assignment()
    for described in by_topic(log_ids, lambda topic_id, partitions: TopicPartitions(topic_id, "", partitions)):
        topic = topics.with_id(described.topic_id)
        if topic is not None:
            described.topic_name = topic.name
            assignment.topic_partitions.append(described)
    return assignment
