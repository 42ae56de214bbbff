"""Sends messages in batches: one request carries a thousand, where one by one they would cost a thousand.

A batch leaves when it is full, or when its oldest message has waited for `linger_ms`. A producer that asks for all
acknowledgements is idempotent: it numbers its batches, so that a retry after a lost answer is not written twice.

With a transactional id, messages become visible together or not at all, to whoever reads only what is committed:

    async with producer.transaction():
        await producer.send("orders", key, value)
        await producer.send_offsets(consumer.assignment, consumer.group_metadata)
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.client.connections.cluster import no_such_partition
from headrace.client.errors import ClientError, TransactionAborted
from headrace.client.producing.batch import PendingBatch, Receipt
from headrace.client.producing.delivery import Deliveries
from headrace.client.producing.partition_queue import PartitionQueue
from headrace.client.producing.partitioner import StickyPartitioners
from headrace.client.producing.send_buffer import SendBuffer, UnseenFailures
from headrace.model.errors import Refusal
from headrace.model.names import NO_TIMESTAMP, TIMESTAMP_MAX_MS, TopicPartition
from headrace.runtime.tasks import TaskScope, uninterrupted
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import record_size_max
from headrace.wire.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic
    from headrace.client.groups.group_offsets import GroupMetadata
    from headrace.client.producing.partitioner import StickyPartitioner
    from headrace.client.producing.transactions import Outcome, Transactions
    from headrace.wire.batches.records import Headers

BATCH_BYTES = 1 << 20  # just under Kafka's default max.message.bytes; larger ones gain nothing
BUFFER_BYTES = 32 << 20  # Kafka's buffer.memory: a slow node must slow its producers, not fill their memory
LINGER_MS = 5.0  # Kafka's default since 4.0: little delay, far fewer requests
DELIVERY_TIMEOUT_S = 120.0  # Kafka's delivery.timeout.ms: from `send` to giving up, retries included
TRANSACTION_TIMEOUT_MS = 60_000  # Kafka's default: how long an open transaction may hold up those who read committed
_PAYLOAD = (bytes, type(None), bytearray, memoryview)  # what a key or a value may be


class Acks(IntEnum):
    """What a producer waits for."""

    NONE = 0
    LEADER = 1
    ALL = -1


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What a producer waits for and how it gathers its batches.

    ValueError for what does not go together, such as idempotence without acks=all.
    """

    acks: Acks = Acks.ALL
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES
    linger_ms: float = LINGER_MS
    buffer_bytes: int = BUFFER_BYTES
    delivery_timeout_s: float = DELIVERY_TIMEOUT_S
    is_idempotent: bool | None = None
    """None: exactly when `acks` is ALL, the only case where it means something."""
    transactional_id: str | None = None
    """A name that stays over restarts. Whoever takes it over aborts what the one before left open, and fences it."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS

    def __post_init__(self) -> None:
        if self.is_idempotent and self.acks is not Acks.ALL:
            raise ValueError("an idempotent producer needs acks=all: without it a retry cannot be told from a loss")
        if self.transactional_id is not None and not (self.transactional_id and self.numbers_batches):
            raise ValueError("a transactional id is not empty, and needs an idempotent producer with acks=all")
        for name in ("batch_bytes", "buffer_bytes", "transaction_timeout_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.linger_ms < 0:
            raise ValueError(f"linger_ms is {self.linger_ms}; expected 0 or more")

    @property
    def numbers_batches(self) -> bool:
        """True if the producer is idempotent."""
        return self.acks is Acks.ALL if self.is_idempotent is None else self.is_idempotent


# size: one API, of which every method says what it does; what it is made of has files of its own
class BatchingProducer:
    """Sends messages in batches. Use it with `async with`: leaving the block sends what is left.

        async with system_cluster("localhost:9092") as cluster, BatchingProducer(cluster) as producer:
            await producer.send("orders", b"customer-17", b"one espresso")  # in a batch, which leaves soon
            receipt = await producer.send("orders", b"customer-18", b"two teas")
            print((await receipt).offset)  # in the log

    `send` returns once a message is in a batch. Await the receipt that it returns for the outcome; what goes wrong with
    messages whose receipt nobody awaits is raised by the next `flush`, or when the producer is closed.
    """

    def __init__(self, cluster: Cluster, settings: ProducerSettings | None = None) -> None:
        self.settings = settings or ProducerSettings()
        self.delivered_count = 0
        self.delivered_bytes = 0
        """Of keys and values."""
        self.failed_count = 0
        self._cluster = cluster
        self._stickies = StickyPartitioners(cluster)
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._buffer = SendBuffer()
        self._unseen_failures = UnseenFailures()
        self._scope = TaskScope(self._broke)
        self._transactions: Transactions | None = None
        if self.settings.transactional_id is not None:
            from headrace.client.producing.transactions import Transactions  # noqa: PLC0415 - many messages, for few producers

            self._transactions = Transactions(
                cluster, self.settings.transactional_id, self.settings.transaction_timeout_ms
            )
        self._deliveries = Deliveries(self, cluster, self._scope, self._transactions)
        self._broken: ClientError | None = None
        self._is_closed = False

    async def __aenter__(self) -> BatchingProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def buffered_bytes(self) -> int:
        """Memory of the messages whose outcome is not known yet."""
        return self._buffer.used_bytes

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Put a message into a batch. Waits only while the buffer is full, or for news about the topic.

        Without `partition` the key decides, by the same hash as in Kafka's clients; without a key the partition changes
        with each batch. `timestamp_ms` is now if it is left out.

        Raises Refusal if the topic or the partition does not exist, TypeError if key or value are no bytes, ClientError
        if the producer is closed. With a transactional id: ClientError without an open transaction, TransactionAborted
        if it can only be aborted.
        """
        _expect_payload(key, value)
        if timestamp_ms is not None and not NO_TIMESTAMP <= timestamp_ms <= TIMESTAMP_MAX_MS:
            raise ValueError(f"timestamp_ms is {timestamp_ms}, expected milliseconds since 1970, at most 2**62")
        known, sticky = self._stickies.known(topic) or await self._stickies.learn(topic)
        record_bytes = record_size_max(key, value, headers)
        buffer = self._buffer
        while buffer.used_bytes and buffer.used_bytes + record_bytes > self.settings.buffer_bytes:
            await buffer.wait_for_room()
        if self._is_closed:
            raise ClientError("this producer is closed")
        if self._broken is not None:
            raise self._broken
        if self._transactions is not None:
            self._transactions.check_open()
        if partition is None:
            if key is None:
                partition = self._sticky_partition(topic, sticky, record_bytes)
            else:
                partition = partition_for_key(key, len(known.partitions))
        elif not 0 <= partition < len(known.partitions):
            raise no_such_partition(known, partition)
        batch = self.get_or_create_batch(known, partition, record_bytes)
        before = batch.size
        position = batch.append(
            self._cluster.clock.wall_ms() if timestamp_ms is None else timestamp_ms, key, value, headers
        )
        buffer.used_bytes += batch.size - before
        if batch.is_full():
            self.flush_batch(batch)
            await asyncio.sleep(0)  # a caller that never waits would otherwise keep the batch from leaving
        return Receipt(batch, position)

    async def flush(self) -> None:
        """Send all that was given so far, and wait for the outcome.

        DeliveryFailed if a message was lost whose receipt nobody awaits.
        """
        await self._send_out()
        self._unseen_failures.raise_any()

    async def _send_out(self) -> None:
        unsent = [batch for queue in self._queues.values() for batch in queue.batches]
        for queue in self._queues.values():
            queue.close_filling()
            self._deliveries.wake(queue)
        for batch in unsent:
            await batch.outcome_known()

    async def close(self) -> None:
        """Flush, then stop. What is still unsent after a failed flush is given up. An open transaction is aborted."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._transactions is None:
                await self.flush()
            elif self._transactions.can_abort:
                with suppress(ClientError, Refusal):  # then it ends by its timeout
                    await self.abort_transaction()
        finally:
            self._deliveries.stop()
            await self._scope.close()
            self._give_up(ClientError("the producer was closed before the message was sent"))

    # Transactions.

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commits at the end of the block; aborts if the block raises, or if the commit is refused.

        Whoever is cancelled before the commit was asked for aborts; after that, the cancel waits for the answer. Which
        it was, `transaction_outcome` tells.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self._need_transactions().can_abort:
                await self.abort_transaction()
            raise

    @property
    def transaction_outcome(self) -> Outcome:
        """Of the transaction that was begun last."""
        return self._need_transactions().outcome

    async def begin_transaction(self) -> None:
        """Begin a transaction. The first call takes the transactional id over, and waits until what was open under it
        is aborted.

        ProducerFenced if another producer has taken the id over since; ClientError if a transaction is open already.
        """
        if self._is_closed:
            raise ClientError("this producer is closed")
        await self._need_transactions().begin()

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Let a consumer group go on from these offsets (next ones to read) if the transaction is committed.

        TransactionAborted if the group does not take them, for example because the partitions went to another member.
        """
        await self._need_transactions().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Send what is left, then commit.

        TransactionAborted: nothing of it will be seen; abort it. Any other ClientError: the outcome is not known yet.
        Call this again to learn it.

        Even if the caller is cancelled, the coordinator's answer is waited for, as long as that of any other request:
        without it, nobody knows what became of the transaction. A second cancel does not wait.
        """
        transactions = self._need_transactions()
        transactions.begin_commit()
        await self._send_out()
        self._unseen_failures.forget()  # the commit tells
        await asyncio.sleep(0)  # a cancel that is on its way already comes before the commit
        await uninterrupted(transactions.commit())

    async def abort_transaction(self) -> None:
        """Nothing of the transaction will be seen. What was not sent yet is dropped, and its receipts raise
        TransactionAborted.

        ClientError if a commit was asked for and not answered: it may have been committed, so only `commit_transaction`
        helps.
        """
        transactions = self._need_transactions()
        transactions.begin_abort()
        await self._drop_all()
        await transactions.abort()

    async def _drop_all(self) -> None:
        """Drop what was not sent, and wait for what was: it must not come after the abort."""
        assert self._transactions is not None
        dropped = TransactionAborted(f"the transaction of {self.settings.transactional_id!r} was aborted")
        while True:
            under_way: list[PendingBatch] = []
            for queue in self._queues.values():
                queue.close_filling()
                for batch in queue.waiting:
                    if batch.is_uncertain:
                        self._transactions.doom(dropped)
                    self._fail(batch, dropped)
                queue.waiting.clear()
                if queue.under_way is not None:
                    under_way.append(queue.under_way)
            if not under_way:
                break
            for batch in under_way:
                batch.deadline_s = 0.0  # no more attempts
                await asyncio.shield(batch.settled)
        self._unseen_failures.forget()

    def _need_transactions(self) -> Transactions:
        if self._transactions is None:
            raise ClientError("this producer has no transactional_id, so it has no transactions")
        return self._transactions

    # Batches.

    def get_or_create_batch(self, topic: Topic, partition: int, record_bytes: int) -> PendingBatch:
        """The batch of a partition that has room for this much."""
        name = TopicPartition(topic.name, partition)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PartitionQueue(name)
        batch = queue.filling
        if batch is not None and not batch.has_room_for(record_bytes):
            self.flush_batch(batch)
            batch = None
        return batch if batch is not None else self._create_batch(queue)

    def flush_batch(self, batch: PendingBatch) -> None:
        """Let a batch leave as soon as its partition is free, with what it has."""
        queue = self._queues[batch.partition]
        if queue.filling is batch:
            queue.close_filling()
            self._stickies.move_on(batch.partition)
        self._deliveries.wake(queue)

    def _create_batch(self, queue: PartitionQueue) -> PendingBatch:
        now_s = self._cluster.clock.monotonic_s()
        settings = self.settings
        batch = PendingBatch(
            queue.partition,
            settings.codec,
            settings.batch_bytes,
            due_s=now_s + settings.linger_ms / 1000,
            deadline_s=now_s + settings.delivery_timeout_s,
        )
        queue.filling = batch
        self._buffer.used_bytes += batch.size
        asyncio.get_running_loop().call_later(settings.linger_ms / 1000, self._linger_ended, queue, batch)
        return batch

    def _linger_ended(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        if queue.filling is batch:
            batch.due_s = 0.0  # timers may be early by a grain of the clock
            self._deliveries.wake(queue)

    def _sticky_partition(self, topic: str, sticky: StickyPartitioner, record_bytes: int) -> int:
        """A message that finds its batch full begins the next one, which is elsewhere."""
        queue = self._queues.get(TopicPartition(topic, sticky.partition))
        if queue is not None and queue.filling is not None and not queue.filling.has_room_for(record_bytes):
            self.flush_batch(queue.filling)
        return sticky.partition

    # Outcomes, as `Deliveries` finds them.

    def batch_left(self, batch: PendingBatch) -> None:
        """A batch that lingered is on its way: messages without a key move on with it."""
        self._stickies.move_on(batch.partition)

    def batch_split(self, batch: PendingBatch, halves: tuple[PendingBatch, PendingBatch]) -> None:
        """A batch was too large for its topic: from now on its halves count."""
        self._buffer.used_bytes += sum(half.size for half in halves) - batch.size
        batch.settle()

    def batch_delivered(self, batch: PendingBatch) -> None:
        """All messages of a batch are in the log."""
        self.delivered_count += batch.count
        self.delivered_bytes += batch.content_bytes
        self._buffer.settle(batch)

    def batch_failed(self, batch: PendingBatch, error: Exception) -> None:
        """A batch was given up. A transaction that it belongs to can only be aborted."""
        if self._transactions is not None:
            self._transactions.doom(error)
        self._fail(batch, error)

    def _fail(self, batch: PendingBatch, error: Exception) -> None:
        batch.error = error
        self.failed_count += batch.count
        self._unseen_failures.add(batch)
        self._buffer.settle(batch)

    def _broke(self, name: str, error: BaseException) -> None:
        """A bug in a delivery: whatever waits for it must not wait for ever.

        Nothing can be sent after it. What other deliveries have under way is given up, too, and may yet be written:
        whatever came next would bear the same numbers, and be taken for it.
        """
        if self._broken is None:
            self._broken = ClientError(f"{name} failed, and this producer with it: {error!r}. Make a new one")
        self._deliveries.stop()
        self._give_up(self._broken)

    def _give_up(self, error: ClientError) -> None:
        for queue in self._queues.values():
            batches = queue.batches
            queue.under_way = queue.filling = None
            queue.waiting.clear()
            for batch in batches:
                self.batch_failed(batch, error)


def _expect_payload(key: object, value: object) -> None:
    if isinstance(key, _PAYLOAD) and isinstance(value, _PAYLOAD):
        return
    name, wrong = ("value", value) if isinstance(key, _PAYLOAD) else ("key", key)
    remedy = "; encode it first" if isinstance(wrong, str) else ""
    raise TypeError(f"the {name} of a message is bytes or None, not {type(wrong).__name__}{remedy}")
