"""The older flow of transactions, spoken raw: each partition is announced, and the epoch stays from one to the next.

Every request is tried once. After any trouble the producer asks for its id anew, as clients of that flow do: only a new
epoch keeps a late request from touching the next transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.errors import refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.simulation.history.history import ACKS_ALL_IDEMPOTENT
from headrace.simulation.history.transactions import Fate
from headrace.simulation.workloads.produce_and_consume import TROUBLE
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Connection
    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Send
    from headrace.simulation.history.transactions import Transaction
    from headrace.simulation.workloads.context import WorkloadContext

TIMEOUT_MS: Final = 5_000
NODE_TIMEOUT_MS: Final = 4_000
ACKS_ALL: Final = -1
INIT_VERSION: Final = 3
ADD_VERSION: Final = 3
PRODUCE_VERSION: Final = 11  # the last of the older flow
END_VERSION: Final = 4
AGAIN_S: Final = 0.1  # while the last transaction's markers are on their way

_TRY_AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


async def produce_announced(context: WorkloadContext, name: str) -> None:
    chance = context.random(name)
    number = 0
    while not context.is_over():
        number += 1
        producer = _Producer(context, f"{name}.{number}", transactional_id=name)
        try:
            async with context.client(name) as cluster:
                await producer.take_id(cluster)
                for _ in range(chance.randint(1, 8)):
                    if context.is_over():
                        break
                    await producer.transact(cluster)
                    await context.rest_between(chance.choice((0.02, 0.3, 1.0)))
        except TROUBLE:
            await asyncio.sleep(0.2)
        finally:
            producer.abandon()


class _Producer:
    """One identity. It is of no use after the first trouble."""

    def __init__(self, context: WorkloadContext, name: str, transactional_id: str) -> None:
        self._context = context
        self._name = name
        self._transactional_id = transactional_id
        self._chance = context.random(name)
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._open: Transaction | None = None

    async def take_id(self, cluster: Cluster) -> None:
        while True:
            connection = await self._coordinator(cluster)
            request = InitProducerIdRequest(self._transactional_id, TIMEOUT_MS)
            answer = await connection.request(request, InitProducerIdResponse, version=INIT_VERSION)
            if answer.error_code not in _TRY_AGAIN:
                break
            await asyncio.sleep(AGAIN_S)
        refuse_unless_ok(answer.error_code, "InitProducerId")
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def transact(self, cluster: Cluster) -> None:
        chance = self._chance
        self._open = self._context.transactions.begin(self._transactional_id, self._name)
        for _ in range(chance.randint(1, 3)):
            partitions = chance.sample(self._context.open_partitions, 1)
            await self._announce(cluster, partitions)
            for partition in partitions:
                await self._produce(cluster, partition)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice((0.1, 1.0, 3.0)))
        await self._end(cluster, is_commit=chance.random() < 0.7)

    def abandon(self) -> None:
        if self._open is not None:
            self._open.lost()
            self._open = None

    async def _coordinator(self, cluster: Cluster) -> Connection:
        return await Coordinator(cluster, CoordinatorKind.TRANSACTION, self._transactional_id).connection()

    async def _announce(self, cluster: Cluster, partitions: list[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, [index]) for name, index in partitions],
        )
        while True:
            connection = await self._coordinator(cluster)
            answer = await connection.request(request, AddPartitionsToTxnResponse, version=ADD_VERSION)
            codes = [
                part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            ]
            if _TRY_AGAIN.isdisjoint(codes):
                break
            await asyncio.sleep(AGAIN_S)
        for code in codes:
            refuse_unless_ok(code, "AddPartitionsToTxn")

    async def _produce(self, cluster: Cluster, partition: TopicPartition) -> None:
        assert self._open is not None
        history = self._context.history
        sends: list[Send] = []
        for _ in range(self._chance.randint(1, 3)):
            value = self._context.value(self._name, self._chance)
            number = history.next_number(self._name)
            sends.append(history.begin(self._name, partition, number, value, ACKS_ALL_IDEMPOTENT))
            self._context.transactions.add(self._open, sends[-1])
        now_ms = cluster.clock.wall_ms()
        sequence = self._sequences.get(partition, 0)
        encoded = encode_batch(
            [(now_ms, None, send.value, ()) for send in sends],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._sequences[partition] = sequence + len(sends)
        topic = TopicProduceData(partition.topic)
        topic.partition_data.append(PartitionProduceData(partition.partition, memoryview(encoded)))
        request = ProduceRequest(self._transactional_id, ACKS_ALL, NODE_TIMEOUT_MS, [topic])
        connection = await cluster.any_connection()
        answer = await connection.request(request, ProduceResponse, version=PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        refuse_unless_ok(result.error_code, f"produce to {partition}")
        for place, send in enumerate(sends):
            send.ok(result.base_offset + place)

    async def _end(self, cluster: Cluster, *, is_commit: bool) -> None:
        transaction = self._open
        assert transaction is not None
        transaction.is_commit_asked = is_commit
        connection = await self._coordinator(cluster)
        request = EndTxnRequest(self._transactional_id, self._producer_id, self._epoch, is_commit)
        answer = await connection.request(request, EndTxnResponse, version=END_VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise Refusal(ErrorCode(answer.error_code), "EndTxn")
        transaction.fate = Fate.COMMITTED if is_commit else Fate.ABORTED
        self._open = None
