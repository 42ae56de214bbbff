"""What an operator asks about groups: who is in them, how far they have read, how far that is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.client.groups.consumer_protocol import PROTOCOL_TYPE, by_topic, decode_assignment
from headrace.client.groups.group_offsets import CommittedOffset, GroupMetadata, commit_offsets, fetch_offsets
from headrace.client.reading.offsets import IsolationLevel, find_bounds
from headrace.client.reading.peek import peek
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.client.connections.cluster import Cluster
    from headrace.wire.messages import consumer_group_describe, describe_groups

CLASSIC = "classic"
CONSUMER = "consumer"
LIST_VERSIONS = (5, 5)  # says the type of a group
DESCRIBE_VERSIONS = (5, 6)
DEAD = "Dead"  # how older nodes describe a group that there is not

# How a coordinator says that it, or the group, is of the other kind.
_NOT_OF_THIS_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}


class GroupListing(NamedTuple):
    """A group, as the list of all groups has it. `protocol_type` is `consumer` for groups that read topics."""

    group_id: str
    state: str
    type: str
    protocol_type: str


class GroupMember(NamedTuple):
    """A member of a group and the partitions that it reads. `instance_id` is that of a static member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group with its members and the node that coordinates it."""

    group_id: str
    type: str
    """`classic`, or `consumer` for groups of the newer protocol (KIP-848)."""
    state: str
    coordinator: NodeId
    assignor: str
    members: list[GroupMember]


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition. What is not known is None."""

    partition: TopicPartition
    committed: int | None
    end: int
    """The high watermark, or the last stable offset for whoever reads only what is committed."""
    start: int
    lag: int | None
    lag_ms: int | None
    """The age of the oldest record that the group has not read yet; 0 if it has read all."""
    member: GroupMember | None


class GroupAdmin:
    """Groups of both protocols, and their offsets.

    for lag in await GroupAdmin(cluster).lag("billing"):
        print(lag.partition, lag.lag)
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, Coordinator] = {}

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """The groups of all nodes, by name.

        `states` and `types` choose among them, in Kafka's words: `Stable`, `Empty`; `classic`, `consumer`. Empty: all.
        """
        from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse  # noqa: PLC0415

        async def attempt() -> list[GroupListing]:
            listings: list[GroupListing] = []
            for node_id in sorted((await self._cluster.refresh()).nodes):
                connection = await self._cluster.node_connection(node_id)
                answer = await connection.request(
                    ListGroupsRequest(list(states), list(types)),
                    ListGroupsResponse,
                    version=connection.version_for(ListGroupsRequest, LIST_VERSIONS),
                )
                refuse_unless_ok(answer.error_code, f"groups of node {node_id}")
                listings += [
                    GroupListing(group.group_id, group.group_state, group.group_type, group.protocol_type)
                    for group in answer.groups
                ]
            return sorted(listings)

        return await self._cluster.retry(attempt)

    async def describe(self, group_id: str) -> GroupDescription:
        """A group of either protocol with its members. Refusal GROUP_ID_NOT_FOUND if there is none."""
        try:
            return await self._describe_consumer_group(group_id)
        except Refusal as refusal:
            if refusal.code not in _NOT_OF_THIS_KIND:
                raise
        return await self._describe_classic_group(group_id)

    async def _describe_consumer_group(self, group_id: str) -> GroupDescription:
        from headrace.wire.messages.consumer_group_describe import (  # noqa: PLC0415
            ConsumerGroupDescribeRequest,
            ConsumerGroupDescribeResponse,
        )

        def check(answer: ConsumerGroupDescribeResponse) -> None:
            for group in answer.groups:
                refuse_unless_ok(group.error_code, f"group {group_id!r}", group.error_message)

        coordinator = self._coordinator(group_id)
        answer = await coordinator.ask(ConsumerGroupDescribeRequest([group_id]), ConsumerGroupDescribeResponse, check)
        (group,) = answer.groups
        members = [_consumer_member(member) for member in group.members]
        return GroupDescription(
            group_id, CONSUMER, group.group_state, await coordinator.node_id(), group.assignor_name, sorted(members)
        )

    async def _describe_classic_group(self, group_id: str) -> GroupDescription:
        from headrace.wire.messages.describe_groups import (  # noqa: PLC0415
            DescribeGroupsRequest,
            DescribeGroupsResponse,
        )

        def check(answer: DescribeGroupsResponse) -> None:
            for group in answer.groups:
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == DEAD:
                    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
                refuse_unless_ok(group.error_code, f"group {group_id!r}", group.error_message)

        coordinator = self._coordinator(group_id)
        answer = await coordinator.ask(
            DescribeGroupsRequest([group_id]), DescribeGroupsResponse, check, versions=DESCRIBE_VERSIONS
        )
        (group,) = answer.groups
        is_readable = group.protocol_type == PROTOCOL_TYPE  # others, such as Connect, assign things of their own
        members = [_classic_member(member, is_readable=is_readable) for member in group.members]
        return GroupDescription(
            group_id, CLASSIC, group.group_state, await coordinator.node_id(), group.protocol_data, sorted(members)
        )

    # Offsets.

    async def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All that the group has committed, by partition; each is the next offset to read. Empty for a group that is
        not there.
        """
        return await fetch_offsets(self._coordinator(group_id), group_id)

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets from outside. Refusal NON_EMPTY_GROUP while members are at work: they would not notice."""
        if not offsets:
            return
        places = {name: CommittedOffset(Offset(offset)) for name, offset in offsets.items()}
        try:
            await commit_offsets(self._coordinator(group_id), GroupMetadata(group_id), places)
        except Refusal as refusal:
            if refusal.code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH}:
                message = f"group {group_id!r} has members; stop them first, they would go on from where they are"
                raise Refusal(ErrorCode.NON_EMPTY_GROUP, message) from refusal
            raise

    async def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Forget offsets of topics that no member reads. Refusal if a member does."""
        from headrace.wire.messages.offset_delete import (  # noqa: PLC0415
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
            OffsetDeleteResponse,
        )

        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
            for topic, indexes in by_topic(partitions).items()
        ]
        answer = await self._coordinator(group_id).ask(
            OffsetDeleteRequest(group_id, topics),
            OffsetDeleteResponse,
            lambda answer: refuse_unless_ok(
                answer.error_code, f"group {group_id!r}", right=f"DELETE on group {group_id!r}"
            ),
        )
        for topic in answer.topics:
            for part in topic.partitions:
                what = f"offset of group {group_id!r} in {topic.name}-{part.partition_index}"
                refuse_unless_ok(part.error_code, what, right=f"READ on topic {topic.name!r}")

    async def delete(self, group_id: str) -> None:
        """Forget a group and its offsets. Refusal while it has members."""
        from headrace.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse  # noqa: PLC0415

        def check(answer: DeleteGroupsResponse) -> None:
            for result in answer.results:
                refuse_unless_ok(result.error_code, f"group {group_id!r}", right=f"DELETE on group {group_id!r}")

        await self._coordinator(group_id).ask(DeleteGroupsRequest([group_id]), DeleteGroupsResponse, check)

    # Lag.

    async def lag(
        self, group_id: str, *, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> list[PartitionLag]:
        """How far the group is behind, for every partition that it has committed or reads now.

        With READ_COMMITTED the end is the last stable offset. Topics that are gone are left out. Refusal
        GROUP_ID_NOT_FOUND if there is no such group.
        """
        committed = await self.offsets(group_id)
        owners = {name: member for member in (await self.describe(group_id)).members for name in member.partitions}
        names = await self._those_there({*committed, *owners})
        bounds = await find_bounds(self._cluster, names, isolation)
        lags: list[PartitionLag] = []
        for name in names:
            (start, end), place = bounds[name], committed.get(name)
            if place is None:
                lags.append(PartitionLag(name, None, end, start, None, None, owners.get(name)))
                continue
            lag = max(0, end - place.offset)
            lag_ms = await self._age_ms(name, max(place.offset, start), end, isolation) if lag else 0
            lags.append(PartitionLag(name, place.offset, end, start, lag, lag_ms, owners.get(name)))
        return lags

    async def _those_there(self, names: Collection[TopicPartition]) -> list[TopicPartition]:
        topics = await self._cluster.topics(sorted({name.topic for name in names}))
        return sorted(
            name for name in names if name.topic in topics and name.partition < len(topics[name.topic].partitions)
        )

    async def _age_ms(self, name: TopicPartition, offset: int, end: int, isolation: IsolationLevel) -> int | None:
        try:
            record, is_at_end = await peek(self._cluster, name, offset, end, isolation)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return None  # retention took it while we looked
        if is_at_end:
            return 0  # nothing but markers
        if record is None or record.timestamp < 0:
            return None
        return max(0, self._cluster.clock.wall_ms() - record.timestamp)

    def _coordinator(self, group_id: str) -> Coordinator:
        found = self._coordinators.get(group_id)
        if found is None:
            found = self._coordinators[group_id] = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        return found


def _consumer_member(member: consumer_group_describe.Member) -> GroupMember:
    partitions = [
        TopicPartition(share.topic_name, index)
        for share in member.assignment.topic_partitions
        for index in share.partitions
    ]
    return GroupMember(member.member_id, member.instance_id, member.client_id, member.client_host, sorted(partitions))


def _classic_member(member: describe_groups.DescribedGroupMember, *, is_readable: bool) -> GroupMember:
    partitions = decode_assignment(member.member_assignment) if is_readable else []
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, sorted(partitions)
    )
