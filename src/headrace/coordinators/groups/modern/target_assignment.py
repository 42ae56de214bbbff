"""A new epoch for a KIP-848 group, and the target that goes with it: what each member is to own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.coordinators.groups.modern.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from headrace.coordinators.groups.modern.members import NO_PARTITIONS, target_record
from headrace.coordinators.groups.modern.subscriptions import hash_of
from headrace.coordinators.records import LogRecord
from headrace.wire.messages import group_records as records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.coordinators.groups.modern.members import Member
    from headrace.coordinators.groups.modern.state import Draft, ModernState
    from headrace.coordinators.groups.modern.subscriptions import Subscriptions


def metadata_hash(state: ModernState, subscriptions: Subscriptions) -> int:
    """Of the topics that the members subscribe to, as they are now."""
    known = subscriptions.topics_of(member.metadata for member in state.members.values())
    return hash_of(topic for topics in known.values() for topic in topics)


def raise_epoch(draft: Draft, group_id: str, subscriptions: Subscriptions) -> None:
    value = records.ConsumerGroupMetadataValue(
        epoch=draft.state.epoch + 1, metadata_hash=metadata_hash(draft.state, subscriptions)
    )
    draft.write(LogRecord(records.ConsumerGroupMetadataKey(group_id), value))


def retarget(draft: Draft, group_id: str, subscriptions: Subscriptions) -> None:
    """Make the target for the epoch that the group is at. Only what changes is written."""
    state = draft.state
    members = state.members.values()
    known = subscriptions.topics_of(member.metadata for member in members)
    partition_counts = {topic.topic_id: topic.partition_count for topics in known.values() for topic in topics}
    topic_ids = {subscription: frozenset(topic.topic_id for topic in topics) for subscription, topics in known.items()}
    subscribers = [
        Subscriber(
            member.member_id,
            member.metadata.instance_id,
            topic_ids[member.metadata.subscription],
            state.targets.get(member.member_id, NO_PARTITIONS),
        )
        for member in members
    ]
    targets = ASSIGNORS[preferred_assignor(members)](subscribers, partition_counts)
    for member_id in sorted(targets):
        if targets[member_id] != state.targets.get(member_id, NO_PARTITIONS):
            draft.write(target_record(group_id, member_id, targets[member_id]))
    value = records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=state.epoch)
    draft.write(LogRecord(records.ConsumerGroupTargetAssignmentMetadataKey(group_id), value))


def preferred_assignor(members: Iterable[Member]) -> str:
    """The one that most of those members who care ask for. One that we do not know came from another version's log."""
    votes = Counter(member.metadata.server_assignor for member in members)
    return max(ASSIGNORS, key=lambda name: (votes[name], name == DEFAULT_ASSIGNOR))
