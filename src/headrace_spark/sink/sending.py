"""Finished record batches to their partitions: each partition in order, several batches on their way.

Batches are numbered per partition. A batch whose answer was lost is sent again with the number that it had, and the log
answers with the place that it has already. For that the log remembers the last five, so no more are ever on their way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.errors import ClientError, refuse_unless_ok
from headrace.client.producing.batch import Identity
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_OFFSET, Offset, ProducerId
from headrace.wire.batches.header import SEQUENCE_MAX
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace_spark.codec.encoder import patch_producer

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Connection
    from headrace.client.producing.transactions import Transactions
    from headrace.model.names import TopicPartition
    from headrace_spark.codec.encoder import EncodedBatch

ACKS_ALL = -1
IN_FLIGHT_MAX = 5  # per partition: what a log remembers of a producer, in Kafka and here
UNDER_WAY_BYTES_MAX = 32 << 20  # of all partitions: a slow node must slow the task, not fill its memory
ENDED_BY_COORDINATOR = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}
"""How a coordinator answers a producer whose transaction has timed out. The producer may abort, which asks for its id
anew and is refused if another producer has it by now, and begin another transaction.
"""
UNUSED_TIMEOUT_MS = 60_000  # must be positive even for producers without transactions


async def init_producer_id(cluster: Cluster) -> Identity:
    """A new producer id and epoch, for an idempotent producer."""

    async def attempt() -> Identity:
        answer = await cluster.ask(InitProducerIdRequest(None, UNUSED_TIMEOUT_MS), InitProducerIdResponse)
        refuse_unless_ok(answer.error_code, "InitProducerId")
        return Identity(ProducerId(answer.producer_id), answer.producer_epoch)

    return await cluster.retry(attempt)


@dataclass(slots=True, eq=False)
class _QueuedBatch:
    batch: EncodedBatch
    delivered: asyncio.Future[Offset]
    answer: asyncio.Task[ProduceResponse] | None = None
    """The attempt that is under way."""


@dataclass(slots=True, eq=False)
class _PartitionQueue:
    """One partition: what is to go there, oldest first."""

    partition: TopicPartition
    batches: deque[_QueuedBatch] = field(default_factory=deque)
    next_sequence: int = 0
    running: asyncio.Task[None] | None = None
    patience: RetryBackoff | None = None
    """Since trouble began. Every batch that arrives ends it."""
    in_flight_max: int = 1
    """One until the log knows this producer: it might take the second batch of a stranger for the first."""


class BatchSender:
    """Sends under one identity. With `transactions`, the batches are part of the transaction that is open there."""

    def __init__(self, cluster: Cluster, identity: Identity, transactions: Transactions | None = None) -> None:
        self._cluster = cluster
        self._identity = identity
        self._transactions = transactions
        self._connections_lane = cluster.new_lane("spark sink")
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        self._under_way_bytes = 0
        self._has_room = asyncio.Event()
        self._trouble: Exception | None = None

    async def send(self, partition: TopicPartition, batch: EncodedBatch) -> asyncio.Future[Offset]:
        """Number a batch and let it go. Waits only for room. The future tells the offset that it got."""
        size = len(batch.records)
        while self._trouble is None and self._under_way_bytes and self._under_way_bytes + size > UNDER_WAY_BYTES_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        if self._trouble is not None:
            raise self._trouble
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _PartitionQueue(partition)
        patch_producer(
            batch.records,
            producer_id=self._identity.producer_id,
            epoch=self._identity.epoch,
            base_sequence=queue.next_sequence,
            is_transactional=self._identity.is_transactional,
        )
        queue.next_sequence = (queue.next_sequence + batch.count) & SEQUENCE_MAX
        queued = _QueuedBatch(batch, asyncio.get_running_loop().create_future())
        queue.batches.append(queued)
        self._under_way_bytes += size
        if queue.running is None:
            queue.running = asyncio.get_running_loop().create_task(self._run(queue), name=f"send to {partition}")
        return queued.delivered

    async def flush(self) -> None:
        """Until all is in the log. Raises what stopped it."""
        while running := [queue.running for queue in self._queues.values() if queue.running is not None]:
            await asyncio.wait(running)
        if self._trouble is not None:
            raise self._trouble

    async def close(self) -> None:
        """Give up what is still under way."""
        running = [queue.running for queue in self._queues.values() if queue.running is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._cluster.close_lane(self._connections_lane)  # which ends every request on them
        for queue in self._queues.values():
            await self._settle_answers(queue)

    # One partition.

    async def _run(self, queue: _PartitionQueue) -> None:
        try:
            while queue.batches:
                try:
                    await self._send_through(queue)
                except (ClientError, Refusal) as trouble:
                    await self._settle_answers(queue)
                    if not self._cluster.is_retriable(trouble):
                        raise
                    queue.patience = queue.patience or RetryBackoff(self._cluster, self._cluster.settings.retry_for_s)
                    await queue.patience.wait_or_raise(trouble)
                    await self._refresh_quietly()
        except Exception as final:  # noqa: BLE001 - a bug too: `flush` must not end as if all were written
            self._fail(queue, final)
        finally:
            queue.running = None  # no await since the queue was seen empty: whatever comes next starts another run

    async def _send_through(self, queue: _PartitionQueue) -> None:
        """Keep the window full until the queue is empty."""
        connection = await self._leader_connection(queue.partition)
        while queue.batches:
            for position in range(min(len(queue.batches), queue.in_flight_max)):
                queued = queue.batches[position]
                if queued.answer is None:
                    # Tasks begin in the order in which they are made, so the batches leave in order.
                    queued.answer = asyncio.get_running_loop().create_task(
                        self._request(connection, queue.partition, queued.batch)
                    )
            first = queue.batches[0]
            assert first.answer is not None
            offset = _read_answer(await first.answer, queue.partition)
            queue.batches.popleft()
            queue.patience = None
            queue.in_flight_max = IN_FLIGHT_MAX
            self._arrived(first, offset)

    async def _leader_connection(self, partition: TopicPartition) -> Connection:
        leader = self._cluster.leader_of(partition)
        if leader is None:
            await self._cluster.topic(partition.topic)
            leader = self._cluster.leader_of(partition)
        if leader is None:
            raise self._cluster.why_no_leader(partition)
        return await self._cluster.node_connection(leader.leader, self._connections_lane)

    async def _request(self, connection: Connection, partition: TopicPartition, batch: EncodedBatch) -> ProduceResponse:
        transactions = self._transactions
        timeout_ms = int(self._cluster.settings.request_timeout_s * 1000)
        share = PartitionProduceData(partition.partition, memoryview(batch.records))
        topic = TopicProduceData(partition.topic, self._cluster.topic_id(partition.topic), [share])
        return await connection.request(
            ProduceRequest(
                None if transactions is None else transactions.transactional_id, ACKS_ALL, timeout_ms, [topic]
            ),
            ProduceResponse,
            version=connection.version_for(ProduceRequest, None if transactions is None else transactions.flow.produce),
            # The node itself gives up after timeout_ms; wait a little longer, to hear it say so.
            timeout_s=timeout_ms / 1000 + 1,
        )

    def _arrived(self, queued: _QueuedBatch, offset: Offset) -> None:
        self._under_way_bytes -= len(queued.batch.records)
        self._has_room.set()
        if not queued.delivered.done():
            queued.delivered.set_result(offset)

    async def _settle_answers(self, queue: _PartitionQueue) -> None:
        """Forget the attempts that are under way, once nothing more can come of them."""
        attempts = [queued.answer for queued in queue.batches if queued.answer is not None]
        for queued in queue.batches:
            queued.answer = None
        await asyncio.gather(*attempts, return_exceptions=True)

    async def _refresh_quietly(self) -> None:
        try:
            await self._cluster.refresh()
        except (ClientError, Refusal):
            return  # the next attempt meets the same trouble

    def _fail(self, queue: _PartitionQueue, trouble: Exception) -> None:
        """After one lost batch nothing more is sent, and all who wait get the error."""
        self._trouble = self._trouble or trouble
        self._has_room.set()
        for queued in queue.batches:
            queued.delivered.cancel()
        queue.batches.clear()


def _read_answer(answer: ProduceResponse, partition: TopicPartition) -> Offset:
    """The offset of the batch's first record, NO_OFFSET if the log has the batch but forgot where."""
    outcome = answer.responses[0].partition_responses[0]
    if outcome.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return NO_OFFSET
    if outcome.error_code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
        raise Refusal(
            ErrorCode(outcome.error_code),
            f"{partition} refuses a batch as too large. Set the option kafka.batch.size below the topic's "
            "max.message.bytes; if one record alone is larger, raise max.message.bytes",
        )
    refuse_unless_ok(outcome.error_code, f"writing to {partition}", outcome.error_message)
    return Offset(outcome.base_offset)
