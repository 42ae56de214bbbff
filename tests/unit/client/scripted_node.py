"""A node that does what a test tells it to: answers as scripted, falls silent, hangs up. On a real socket."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.client.connections.cluster import Cluster, ClusterSettings
from headrace.client.connections.frame_buffer import FrameBuffer
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.wire.api import APIS, ApiKey
from headrace.wire.frames import decode_request, encode_response
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.leave_group import LeaveGroupResponse
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headrace.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.network import Link, Listener

TOPIC = "events"
TOPIC_ID = TopicId(b"the id of events")
ANY_PORT = Address("127.0.0.1", 0)
HANG_UP = object()
SILENCE = object()


class ScriptedNode:
    """One node, leader of everything. `script[api]` holds answers to give before the usual ones, in order.

    An entry is an answer, a function from request to answer, HANG_UP or SILENCE.
    """

    def __init__(self, partitions: int = 1, node_id: int = 1) -> None:
        self.node_id = node_id
        self.partitions = partitions
        self.versions = {api.key: (api.version_min, api.version_max) for api in APIS.values()}
        self.script: dict[int, list[Any]] = defaultdict(list)
        self.requests: list[tuple[int, Any]] = []
        self.logs: dict[int, list[bytes]] = defaultdict(list)
        """The batches that were produced, by partition."""
        self.nodes: list[ScriptedNode] = [self]
        self.leaders: dict[int, int] = {}
        self.links: list[Link] = []
        self.next_producer_id = 100
        self.features: dict[str, int] = {}
        self.coordinator_id = node_id
        self.generation_id = 0
        self.committed: dict[int, int] = {}
        """The group's offsets, by partition."""
        self._listener: Listener | None = None

    async def start(self, address: Address = ANY_PORT) -> ScriptedNode:
        self._listener = await SystemNetwork().listen(address, lambda: _Session(self))
        return self

    async def stop(self) -> None:
        assert self._listener is not None
        await self._listener.close()
        for link in self.links:
            link.abort()
        await asyncio.sleep(0)

    @property
    def address(self) -> Address:
        assert self._listener is not None
        return self._listener.address

    def cluster(self, settings: ClusterSettings | None = None) -> Cluster:
        return Cluster([self.address], SystemNetwork(), SystemClock(), SystemEntropy(), settings)

    def asked(self, api_key: int) -> list[Any]:
        return [request for key, request in self.requests if key == api_key]

    def answer(self, api_key: int, version: int, request: Any) -> Any:
        self.requests.append((api_key, request))
        scripted = self.script[api_key].pop(0) if self.script[api_key] else None
        if scripted is None:
            return _USUAL[ApiKey(api_key)](self, request)
        return scripted(request) if callable(scripted) else scripted


class _Session:
    """Implements `runtime.network.Receiver`."""

    def __init__(self, node: ScriptedNode) -> None:
        self._node = node
        self._buffer = FrameBuffer()
        self._link: Link

    def connected(self, link: Link) -> None:
        self._link = link
        self._node.links.append(link)

    def buffer(self) -> memoryview:
        return self._buffer.room()

    def received(self, count: int) -> None:
        for frame in self._buffer.received(count):
            header, request = decode_request(frame)
            answer = self._node.answer(header.api_key, header.api_version, request)
            if answer is HANG_UP:
                self._link.abort()
                return
            if answer is SILENCE:
                continue
            if isinstance(answer, bytes):
                self._link.send((answer,))
            else:
                self._link.send((encode_response(header.correlation_id, header.api_key, header.api_version, answer),))

    def drained(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...


def versions(node: ScriptedNode, _: Any) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        0,
        [ApiVersion(key, low, high) for key, (low, high) in node.versions.items()],
        finalized_features=[FinalizedFeatureKey(name, level, 0) for name, level in node.features.items()],
    )


def metadata(node: ScriptedNode, request: MetadataRequest) -> MetadataResponse:
    asked = [TOPIC] if request.topics is None else [topic.name or "" for topic in request.topics]
    brokers = [MetadataResponseBroker(peer.node_id, *peer.address) for peer in node.nodes]
    return MetadataResponse(
        brokers=brokers, cluster_id="test", controller_id=1, topics=[_described(node, name) for name in asked]
    )


def _described(node: ScriptedNode, name: str) -> MetadataResponseTopic:
    if name != TOPIC:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, NO_TOPIC_ID)
    partitions = [
        MetadataResponsePartition(0, index, node.leaders.get(index, node.node_id), 0, [1], [1])
        for index in range(node.partitions)
    ]
    return MetadataResponseTopic(0, name, TOPIC_ID, False, partitions)


def produced(node: ScriptedNode, request: ProduceRequest) -> Any:
    """Write everything."""
    responses = []
    for topic in request.topic_data:
        answers = []
        for part in topic.partition_data:
            assert part.records is not None
            node.logs[part.index].append(bytes(part.records))
            answers.append(PartitionProduceResponse(part.index, 0, 100 * len(node.logs[part.index])))
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return SILENCE if request.acks == 0 else ProduceResponse(responses)


def refused(code: ErrorCode) -> Callable[[ProduceRequest], ProduceResponse]:
    """Refuse all partitions of a Produce request."""
    return lambda request: ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(part.index, code, -1) for part in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def identified(node: ScriptedNode, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.producer_id >= 0:
        return InitProducerIdResponse(0, 0, request.producer_id, request.producer_epoch + 1)
    node.next_producer_id += 1
    return InitProducerIdResponse(0, 0, node.next_producer_id, 0)


def listed(node: ScriptedNode, request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        0,
        [
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(part.partition_index, 0, -1, 0) for part in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def fetched(_: ScriptedNode, request: FetchRequest) -> Any:
    """Nothing new: the long poll stays open."""
    return SILENCE


def records(*batches: bytes, partition: int = 0, code: int = 0, session_id: int = 9) -> FetchResponse:
    part = PartitionData(partition, code, 1000, records=b"".join(batches))
    return FetchResponse(0, 0, session_id, [FetchableTopicResponse(TOPIC, TOPIC_ID, [part])])


# Groups: this node coordinates all of them, and whoever joins is alone in its group.


def coordinator_found(node: ScriptedNode, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, node.coordinator_id, "", 0, 0) for key in request.coordinator_keys]
    )


def joined(node: ScriptedNode, request: JoinGroupRequest) -> JoinGroupResponse:
    node.generation_id += 1
    member_id = request.member_id or "m-1"
    protocol = request.protocols[0]
    return JoinGroupResponse(
        generation_id=node.generation_id,
        protocol_name=protocol.name,
        leader=member_id,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id, request.group_instance_id, protocol.metadata)],
    )


def synced(_: ScriptedNode, request: SyncGroupRequest) -> SyncGroupResponse:
    shares = {share.member_id: share.assignment for share in request.assignments}
    return SyncGroupResponse(assignment=shares.get(request.member_id, b""))


def offsets_committed(node: ScriptedNode, request: OffsetCommitRequest) -> OffsetCommitResponse:
    for topic in request.topics:
        for part in topic.partitions:
            node.committed[part.partition_index] = part.committed_offset
    return commit_refused(ErrorCode.NONE)(request)


def commit_refused(code: ErrorCode) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
    return lambda request: OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                partitions=[OffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def offsets_fetched(node: ScriptedNode, request: OffsetFetchRequest, code: int = 0) -> OffsetFetchResponse:
    groups = []
    for group in request.groups:
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(index, node.committed.get(index, -1), -1, "", code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
        groups.append(OffsetFetchResponseGroup(group.group_id, topics, 0))
    return OffsetFetchResponse(groups=groups)


# Transactions.


def partitions_added(_: ScriptedNode, request: AddPartitionsToTxnRequest, code: int = 0) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
            )
            for topic in request.v3_and_below_topics
        ]
    )


def ended(node: ScriptedNode, request: EndTxnRequest) -> EndTxnResponse:
    if node.features.get("transaction.version", 0) < 2:
        return EndTxnResponse()
    return EndTxnResponse(0, 0, request.producer_id, request.producer_epoch + 1)


def transactional_offsets(_: ScriptedNode, request: TxnOffsetCommitRequest, code: int = 0) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


_USUAL: dict[ApiKey, Callable[[ScriptedNode, Any], Any]] = {
    ApiKey.API_VERSIONS: versions,
    ApiKey.METADATA: metadata,
    ApiKey.PRODUCE: produced,
    ApiKey.INIT_PRODUCER_ID: identified,
    ApiKey.LIST_OFFSETS: listed,
    ApiKey.FETCH: fetched,
    ApiKey.FIND_COORDINATOR: coordinator_found,
    ApiKey.JOIN_GROUP: joined,
    ApiKey.SYNC_GROUP: synced,
    ApiKey.HEARTBEAT: lambda *_: HeartbeatResponse(),
    ApiKey.LEAVE_GROUP: lambda *_: LeaveGroupResponse(),
    ApiKey.OFFSET_COMMIT: offsets_committed,
    ApiKey.OFFSET_FETCH: offsets_fetched,
    ApiKey.ADD_PARTITIONS_TO_TXN: partitions_added,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda *_: AddOffsetsToTxnResponse(),
    ApiKey.END_TXN: ended,
    ApiKey.TXN_OFFSET_COMMIT: transactional_offsets,
}
