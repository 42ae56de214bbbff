"""A blocking connection that sends exactly what a test says and shows exactly what comes back.

For what no client library would send, or would hide from its user.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.wire.api import APIS, response_class
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records, encode_batch
from headrace.wire.frames import RequestHeader, decode_response_header, encode_request
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.primitives import Reader
from tests import secured_run
from tests.clients.nodes import PATIENCE_S

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from headrace.model.names import TopicId
    from headrace.wire.api import Message
    from headrace.wire.messages.fetch import PartitionData
    from headrace.wire.messages.list_offsets import ListOffsetsPartitionResponse
    from headrace.wire.messages.produce import PartitionProduceResponse

Answer = TypeVar("Answer")

PRODUCE_BY_NAME = 12  # from version 13 on Produce and Fetch name topics by id
FETCH_BY_NAME = 12
PLENTY = 1 << 20
ACKS_ALL = -1

_LENGTH = Struct(">i")


class Closed(Exception):
    """The node has closed the connection."""


class RawConnection:
    def __init__(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self._socket = secured_run.logged_in(socket.create_connection((host, int(port)), PATIENCE_S), servers)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    # ---- any request

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a request and wait for its answer."""
        version = self.send(message, version)
        return self.receive(message.API_KEY, version)

    def send(self, message: Message, version: int | None = None) -> int:
        """Send a request; the version it went out in."""
        version = APIS[message.API_KEY].version_max if version is None else version
        self._correlation_id += 1
        self.send_bytes(encode_request(RequestHeader(message.API_KEY, version, self._correlation_id, "raw"), message))
        return version

    def send_bytes(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def receive(self, api_key: int, version: int, correlation_id: int | None = None) -> Any:
        """The next answer, which must be to the last request unless another one is named."""
        reader = Reader(self.receive_frame())
        expected = self._correlation_id if correlation_id is None else correlation_id
        assert decode_response_header(reader, api_key, version) == expected
        message = response_class(api_key).decode(reader, version)
        assert reader.remaining == 0, f"{reader.remaining} bytes follow the answer"
        return message

    def receive_frame(self) -> bytes:
        """The next frame without its length. Raises Closed if there is none to come."""
        (size,) = _LENGTH.unpack(self._receive_exactly(_LENGTH.size))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                piece = self._socket.recv(size - len(received))
            except ConnectionResetError as error:
                raise Closed from error
            if not piece:
                raise Closed
            received += piece
        return bytes(received)

    # ---- requests about one partition

    def topic_id(self, topic: str) -> TopicId:
        answer = self.ask(MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False))
        found: TopicId = answer.topics[0].topic_id
        return found

    def produce(
        self, topic: str, batch: bytes | bytearray, *, acks: int = ACKS_ALL, version: int = PRODUCE_BY_NAME
    ) -> PartitionProduceResponse:
        answer = self.ask(produce_request(topic, batch, acks=acks), version)
        result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return result

    def fetch(self, topic: str, offset: int, *, version: int = FETCH_BY_NAME, **fields: Any) -> FetchResponse:
        """A fetch without a session."""
        answer: FetchResponse = self.ask(fetch_request({topic: offset}, **fields), version)
        return answer

    def list_offset(
        self, topic: str, timestamp: int, *, version: int | None = None, leader_epoch: int = -1
    ) -> ListOffsetsPartitionResponse:
        wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, leader_epoch, timestamp)])
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), version)
        found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
        return found


def produce_request(topic: str, batch: bytes | bytearray, *, acks: int = ACKS_ALL) -> ProduceRequest:
    part = PartitionProduceData(0, bytes(batch))
    return ProduceRequest(None, acks, int(PATIENCE_S * 1000), [TopicProduceData(topic, partition_data=[part])])


def fetch_request(offsets: dict[str, int], **fields: Any) -> FetchRequest:
    """One partition of each topic; topics are named. Whatever else is said, is said by the names of the message."""
    request = FetchRequest(max_bytes=fields.pop("max_bytes", PLENTY), **_split(fields))
    for topic, offset in offsets.items():
        part = FetchPartition(fetch_offset=offset, partition_max_bytes=PLENTY)
        for name, value in fields.items():
            setattr(part, name, value)
        request.topics.append(FetchTopic(topic, partitions=[part]))
    return request


def _split(fields: dict[str, Any]) -> dict[str, Any]:
    """Take those fields that belong to the request; the rest belong to its partitions."""
    own = FetchRequest.__dataclass_fields__
    return {name: fields.pop(name) for name in list(fields) if name in own}


def batch_of(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **fields: Any) -> bytearray:
    return encode_batch([(timestamp_ms, None, value, ()) for value in values], **fields)


def values_in(part: PartitionData) -> list[bytes | None]:
    """Those of all records in an answer, which may hold several batches."""
    values: list[bytes | None] = []
    raw = memoryview(part.records or b"")
    while raw:
        size = read_header(raw).size
        values += [record.value for record in decode_records(raw[:size], inflate_max=PLENTY)]
        raw = raw[size:]
    return values


def by_topic(answer: FetchResponse) -> dict[str, PartitionData]:
    return {topic.topic: part for topic in answer.responses for part in topic.partitions}
