"""A client that says exactly what it is told to: its own sequence numbers, no retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.connections.connection import Connection
from headrace.client.connections.view import parse_addresses
from headrace.model.errors import ErrorCode
from headrace.runtime.network import SystemNetwork
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.faults.node_process import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.history import Partition

FETCH_BYTES = 1 << 20
VERSION_WITH_NAMES = 12  # later ones name topics by their ids


class Answer(NamedTuple):
    error: ErrorCode
    base_offset: int
    message: str | None


class RawClient:
    """Use it with `with`. One connection, kept open."""

    def __init__(self, bootstrap: str) -> None:
        self._address = parse_addresses(bootstrap)[0]
        self._runner = asyncio.Runner()

    def __enter__(self) -> RawClient:
        self._connection = self._runner.run(Connection.open(SystemNetwork(), self._address))
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        self._connection.close()

    def new_producer_id(self) -> int:
        request = InitProducerIdRequest(None, 60_000)
        answer = self._runner.run(self._connection.request(request, InitProducerIdResponse))
        assert answer.error_code == 0
        return answer.producer_id

    def produce(self, partition: Partition, batch: bytearray) -> Answer:
        """One batch with acks=all."""
        return self._runner.run(self._produce(partition, batch))

    def produce_all(self, batches: Sequence[tuple[Partition, bytearray]]) -> list[Answer]:
        """All of them at once, one behind the other."""
        return self._runner.run(self._produce_all(batches))

    async def _produce_all(self, batches: Sequence[tuple[Partition, bytearray]]) -> list[Answer]:
        return await asyncio.gather(*(self._produce(partition, batch) for partition, batch in batches))

    async def _produce(self, partition: Partition, batch: bytearray) -> Answer:
        content = [PartitionProduceData(partition.partition, memoryview(batch))]
        topic = TopicProduceData(partition.topic, partition_data=content)
        request = ProduceRequest(None, -1, int(PATIENCE_S * 1000), [topic])
        response = await self._connection.request(
            request, ProduceResponse, version=VERSION_WITH_NAMES, timeout_s=PATIENCE_S
        )
        answer = response.responses[0].partition_responses[0]
        return Answer(ErrorCode(answer.error_code), answer.base_offset, answer.error_message)

    def fetch(self, partition: Partition, offset: int) -> tuple[ErrorCode, bytes]:
        """What there is from an offset on, undecoded."""
        wanted = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(max_bytes=FETCH_BYTES, topics=[FetchTopic(partition.topic, partitions=[wanted])])
        response = self._runner.run(self._connection.request(request, FetchResponse, version=VERSION_WITH_NAMES))
        fetched = response.responses[0].partitions[0]
        return ErrorCode(fetched.error_code), bytes(fetched.records or b"")

    def partition_errors(self, topic: str) -> Sequence[tuple[ErrorCode, int]]:
        """What Metadata says of each partition: its error and its leader."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = self._runner.run(self._connection.request(request, MetadataResponse))
        partitions = sorted(answer.topics[0].partitions, key=lambda partition: partition.partition_index)
        return [(ErrorCode(partition.error_code), partition.leader_id) for partition in partitions]
