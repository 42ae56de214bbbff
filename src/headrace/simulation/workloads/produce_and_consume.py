"""Producers and consumers built on the production client, and what they write into the history.

Every workload is a coroutine that runs on a client's host until the context is over. None gives up because the cluster
is in trouble; each outcome that it cannot be sure of stays unknown in the history.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.errors import ClientError
from headrace.client.producing.producer import Acks, BatchingProducer, ProducerSettings
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.model.errors import Refusal
from headrace.simulation.history.history import Kind, Promise
from headrace.wire.batches.header import Codec

if TYPE_CHECKING:
    from random import Random

    from headrace.client.producing.batch import Receipt
    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Send
    from headrace.simulation.workloads.context import WorkloadContext

TROUBLE = (ClientError, Refusal)
DELIVERY_TIMEOUT_S = 8.0  # shorter than some outages, so that some sends are given up
CATCH_UP_S = 60.0  # for a consumer to read what is left once everything works again
LOOK_BACK = 60  # how many records a consumer may go back when it starts anew


async def produce_in_batches(context: WorkloadContext, name: str) -> None:
    """Bursts of sends by a BatchingProducer, each awaited before the next begins. A new producer every now and then."""
    chance = context.random(name)
    number = 0
    while not context.is_over():
        number += 1
        settings = _draw_producer(chance)
        async with context.client(name) as cluster:
            producer = BatchingProducer(cluster, settings)
            for _ in range(chance.randint(1, 20)):
                if context.is_over():
                    break
                await _send_burst(context, producer, f"{name}.{number}", chance)
                await context.rest_between(chance.choice((0.05, 0.3, 1.0)))
            with suppress(*TROUBLE):  # every send's outcome was noted already
                await producer.close()


def _draw_producer(chance: Random) -> ProducerSettings:
    acks = chance.choice((Acks.ALL, Acks.ALL, Acks.ALL, Acks.LEADER, Acks.NONE))
    return ProducerSettings(
        acks=acks,
        codec=chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4)),
        batch_bytes=chance.choice((500, 5_000, 1 << 20)),
        linger_ms=chance.choice((0.0, 5.0, 50.0)),
        delivery_timeout_s=DELIVERY_TIMEOUT_S,
        is_idempotent=acks is Acks.ALL and chance.random() < 0.7,
    )


async def _send_burst(context: WorkloadContext, producer: BatchingProducer, name: str, chance: Random) -> None:
    settings = producer.settings
    promise = Promise(settings.acks is Acks.ALL, settings.numbers_batches, orders_unknown=False)
    burst: list[tuple[Send, Receipt]] = []
    for _ in range(chance.randint(1, 12)):
        partition = chance.choice(context.open_partitions)
        number = context.history.next_number(name)
        send = context.history.begin(name, partition, number, context.value(name, chance), promise)
        key = chance.choice((None, b"key", b"another key"))
        with suppress(*TROUBLE):
            receipt = await producer.send(partition.topic, key, send.value, partition=partition.partition)
            burst.append((send, receipt))
    for send, receipt in burst:
        with suppress(*TROUBLE):
            delivered = await receipt
            if settings.acks is not Acks.NONE:  # nobody said that it arrived
                send.ok(delivered.offset)


async def consume(context: WorkloadContext, name: str) -> None:
    """Read all partitions from their start, for ever; sometimes again from a little before."""
    await _Reader(context, name, IsolationLevel.READ_UNCOMMITTED).run()


async def consume_committed(context: WorkloadContext, name: str) -> None:
    """The same, for what transactions have committed."""
    await _Reader(context, name, IsolationLevel.READ_COMMITTED).run()


class _Reader:
    """One consumer's place in every partition, over all the connections that it takes to read them."""

    def __init__(self, context: WorkloadContext, name: str, isolation: IsolationLevel) -> None:
        self.context = context
        self.name = name
        self.chance = context.random(name)
        self._isolation = isolation
        self._positions: dict[TopicPartition, int] = {}
        self._deadline_s: float | None = None

    async def run(self) -> None:
        while not self.is_done:
            async with self.context.client(self.name) as cluster:
                wait_ms = int(1000 * self.context.poll_s(self.chance.choice((0.05, 0.5, 0.5))))
                consumer = AssignedConsumer(cluster, ConsumerSettings(fetch_wait_ms=wait_ms, isolation=self._isolation))
                try:
                    await self._read(consumer)
                except TROUBLE:
                    await asyncio.sleep(0.5)
                finally:
                    await consumer.close()
            if self.context.goals is not None and self.is_late:
                self._complain()
                return

    async def _read(self, consumer: AssignedConsumer) -> None:
        starts: dict[TopicPartition, int | Edge] = {}
        for partition in self.context.partitions:
            position = self._positions.get(partition)
            starts[partition] = Edge.EARLIEST if position is None else position
        await consumer.assign(starts)
        for partition in self.context.partitions:
            place = consumer.position(partition)
            self._positions[partition] = place
            self.context.history.assigned(self.name, partition, place)
        for _ in range(self.chance.randint(1, 200)):
            await self._poll(consumer)
            if self.is_done or self.is_late:
                return
        if self.context.goals is None:
            self._go_back()

    async def _poll(self, consumer: AssignedConsumer) -> None:
        history = self.context.history
        polled = await consumer.poll(self.chance.choice((1, 10, 500)), wait_s=self.context.poll_s(0.5))
        for partition, records in polled.items():
            for record in records:
                assert record.value is not None
                history.polled(
                    self.name, partition, record.offset, record.value, is_committed_only=self._is_committed_only
                )
                if self._is_committed_only:
                    self.context.transactions.read_committed(self.name, partition, record.offset, record.value)
        for partition, high_watermark in consumer.high_watermarks.items():
            history.told_watermark(self.name, partition, high_watermark)
        for partition in self.context.partitions:
            self._positions[partition] = consumer.position(partition)

    def _go_back(self) -> None:
        for partition, position in self._positions.items():
            if self.chance.random() < 0.3:
                self._positions[partition] = max(0, position - self.chance.randint(0, LOOK_BACK))

    @property
    def _is_committed_only(self) -> bool:
        return self._isolation is IsolationLevel.READ_COMMITTED

    # The end

    @property
    def _missing(self) -> dict[TopicPartition, int]:
        goals = self.context.goals or {}
        return {partition: goal for partition, goal in goals.items() if self._positions.get(partition, 0) < goal}

    @property
    def is_done(self) -> bool:
        return self.context.goals is not None and not self._missing

    @property
    def is_late(self) -> bool:
        now_s = self.context.cluster.universe.loop.time()
        if self.context.goals is not None and self._deadline_s is None:
            self._deadline_s = now_s + CATCH_UP_S
        return self._deadline_s is not None and now_s > self._deadline_s

    def _complain(self) -> None:
        for partition, goal in self._missing.items():
            place = self._positions.get(partition, 0)
            detail = f"{self.name} still stands at {place} of {goal}, {CATCH_UP_S:g} s after the last fault"
            self.context.history.report(Kind.STUCK, partition, place, detail)


async def trim(context: WorkloadContext, name: str) -> None:
    """DeleteRecords, up to somewhere below what consumers have been told."""
    chance = context.random(name)
    history = context.history
    partitions = [partition for topic in context.topics if topic.is_trimmed for partition in topic.partitions]
    while partitions and not context.is_over():
        await context.rest_between(chance.uniform(0.2, 5.0))
        partition = chance.choice(partitions)
        before = chance.randint(0, history.watermarks.get(partition, 0))
        history.ask_delete(partition, before)
        async with context.client(name) as cluster:
            with suppress(*TROUBLE):
                firsts = await Admin(cluster).delete_records({partition: before})
                history.deleted(partition, max(before, *firsts.values()))
