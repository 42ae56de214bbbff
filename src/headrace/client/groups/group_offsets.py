"""How far a group has read: asked of its coordinator, and told to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import refuse_unless_ok
from headrace.client.groups.consumer_protocol import by_topic
from headrace.model.names import NO_EPOCH, Epoch, Offset, TopicPartition
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.client.connections.coordinator import Coordinator

COMMIT_VERSIONS = (7, 9)  # static members, and topics still by name
FETCH_VERSIONS = (8, 9)  # a list of groups, and topics still by name
NO_GENERATION = -1


class GroupMetadata(NamedTuple):
    """Who commits: a member of a certain generation, or (as it stands by default) somebody from outside the group."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """How far a group is in a partition."""

    offset: Offset
    """The next one to read."""
    leader_epoch: Epoch = NO_EPOCH
    metadata: str = ""


async def commit_offsets(
    coordinator: Coordinator, who: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """All of them, or a Refusal."""
    request = OffsetCommitRequest(
        who.group_id,
        who.generation_id,
        who.member_id,
        who.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                topic, partitions=[_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes]
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )

    def check(answer: OffsetCommitResponse) -> None:
        for topic in answer.topics:
            for part in topic.partitions:
                what = f"group {who.group_id!r} cannot commit {topic.name}-{part.partition_index}"
                refuse_unless_ok(part.error_code, what, right="READ on both")

    await coordinator.ask(request, OffsetCommitResponse, check, versions=COMMIT_VERSIONS)


async def fetch_offsets(
    coordinator: Coordinator,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset]:
    """What is committed of these partitions, or of all. Those without a commit are missing.

    `require_stable` waits for transactions that are about to commit offsets.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=require_stable
    )

    def check(answer: OffsetFetchResponse) -> None:
        for group in answer.groups:
            refuse_unless_ok(group.error_code, f"offsets of group {group_id!r}")
            for topic in group.topics:
                for part in topic.partitions:
                    what = f"offset of group {group_id!r} in {topic.name}-{part.partition_index}"
                    refuse_unless_ok(part.error_code, what)

    answer = await coordinator.ask(request, OffsetFetchResponse, check, versions=FETCH_VERSIONS)
    return {
        TopicPartition(topic.name, part.partition_index): CommittedOffset(
            Offset(part.committed_offset), Epoch(part.committed_leader_epoch), part.metadata or ""
        )
        for group in answer.groups
        for topic in group.topics
        for part in topic.partitions
        if part.committed_offset >= 0
    }


def _commit(index: int, committed: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, committed.offset, committed.leader_epoch, committed.metadata)
