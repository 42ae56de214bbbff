"""A node that does what a test tells it to: answers as scripted, falls silent, hangs up. On a real socket."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.client.cluster import Cluster, ClusterSettings
from headrace.client.frame_buffer import FrameBuffer
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.wire.api import APIS, ApiKey
from headrace.wire.frames import decode_request, encode_response
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headrace.wire.messages.init_producer_id import InitProducerIdResponse
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
from headrace.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
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
    return ApiVersionsResponse(0, [ApiVersion(key, low, high) for key, (low, high) in node.versions.items()])


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


def identified(node: ScriptedNode, _: Any) -> InitProducerIdResponse:
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


_USUAL: dict[ApiKey, Callable[[ScriptedNode, Any], Any]] = {
    ApiKey.API_VERSIONS: versions,
    ApiKey.METADATA: metadata,
    ApiKey.PRODUCE: produced,
    ApiKey.INIT_PRODUCER_ID: identified,
    ApiKey.LIST_OFFSETS: listed,
    ApiKey.FETCH: fetched,
}
