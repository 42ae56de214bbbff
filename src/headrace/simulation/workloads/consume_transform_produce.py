"""Consume, transform, produce: offsets and results in one transaction, so that each record counts exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.client.admin.groups import GroupAdmin
from headrace.client.errors import ProducerFenced, TransactionAborted
from headrace.client.groups.assignors import COOPERATIVE_STICKY, RANGE
from headrace.client.groups.group_consumer import GroupConsumer, GroupConsumerSettings
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.reading.offsets import IsolationLevel, find_bounds
from headrace.simulation.history.history import ACKS_ALL_IDEMPOTENT, Kind
from headrace.simulation.history.transactions import Fate
from headrace.simulation.workloads.client_processes import ClientProcess
from headrace.simulation.workloads.context import reserved_topic
from headrace.simulation.workloads.produce_and_consume import DELIVERY_TIMEOUT_S, TROUBLE
from headrace.simulation.workloads.transactions import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Figures, Reading
    from headrace.simulation.workloads.context import TopicPlan, WorkloadContext
    from headrace.wire.batches.records import Record

GROUP: Final = "transformers"
SESSIONS_MS: Final = (2_000, 5_000)
REBALANCES_MS: Final = (1_500, 6_000)  # shorter than some transactions, so that their partitions go to others meanwhile
HEARTBEAT_MS: Final = 300
DONE_WITHIN_S: Final = 60.0  # after the last fault, for all that is left to be transformed


class Transformation:
    """A source, those who read it, and where their results go."""

    def __init__(self, context: WorkloadContext) -> None:
        self._context = context
        chance = context.random("transformation")
        self.source: TopicPlan = reserved_topic("source", chance)
        self.results: TopicPlan = reserved_topic("results", chance)
        context.topics += [self.source, self.results]
        self._input_of: dict[bytes, bytes] = {}
        """By result, each of which is made once; of one input there may be several, of which one counts."""
        self._assignors = chance.choice(((RANGE,), (COOPERATIVE_STICKY,)))
        self._workers = [_Worker(self, context, f"transformer-{number}") for number in range(chance.randint(1, 3))]

    async def feed(self, name: str) -> None:
        """Into the source, with every acknowledgement."""
        context, chance = self._context, self._context.random(name)
        async with context.client(name) as cluster:
            producer = BatchingProducer(cluster, ProducerSettings(delivery_timeout_s=DELIVERY_TIMEOUT_S))
            while not context.is_over():
                partition = chance.choice(self.source.partitions)
                value = context.value(name, chance)
                send = context.history.begin(
                    name, partition, context.history.next_number(name), value, ACKS_ALL_IDEMPOTENT
                )
                with suppress(*TROUBLE):
                    receipt = await producer.send(partition.topic, None, value, partition=partition.partition)
                    send.ok((await receipt).offset)
                await context.rest_between(chance.choice((0.02, 0.2, 0.5)))
            with suppress(*TROUBLE):
                await producer.close()

    def result_of(self, record: Record) -> bytes:
        assert record.value is not None
        result = b"%d of %s" % (len(self._input_of), record.value)
        self._input_of[result] = record.value
        return result

    def consumer(self, cluster: Cluster, chance: Random) -> GroupConsumer:
        settings = GroupConsumerSettings(
            session_timeout_ms=self._context.session_ms(chance.choice(SESSIONS_MS)),
            rebalance_timeout_ms=chance.choice(REBALANCES_MS),
            heartbeat_interval_ms=self._context.session_ms(HEARTBEAT_MS),
            assignors=self._assignors,
            isolation=IsolationLevel.READ_COMMITTED,
        )
        return GroupConsumer(cluster, GROUP, [self.source.name], settings)

    async def run(self) -> None:
        lives = [asyncio.get_running_loop().create_task(worker.process.live()) for worker in self._workers]
        for life in lives:
            await life

    async def finish(self, cluster: Cluster) -> None:
        """Let those who are left transform the rest, then stop them."""
        for worker in self._workers:
            if not worker.process.is_running:
                worker.process.launch()
        deadline_s = self._context.now_s + DONE_WITHIN_S
        ends = {name: end for name, (_, end) in (await find_bounds(cluster, self.source.partitions)).items()}
        admin = GroupAdmin(cluster)
        while True:
            committed = {name: place.offset for name, place in (await admin.offsets(GROUP)).items()}
            behind = [name for name, end in ends.items() if committed.get(name, 0) < end]
            if not behind:
                break
            if self._context.now_s > deadline_s:
                for name in behind:
                    detail = f"{GROUP} still stand at {committed.get(name)} of {ends[name]}"
                    self._context.history.report(Kind.STUCK, name, committed.get(name, -1), detail)
                break
            await asyncio.sleep(0.5)
        for worker in self._workers:
            await worker.process.leave()

    def check(self, committed: Iterable[Reading], figures: Figures) -> None:
        """`committed` is what readers of committed records get. Each record of the source has one result in it."""
        by_topic: dict[str, list[bytes]] = {self.source.name: [], self.results.name: []}
        for reading in committed:
            if reading.partition.topic in by_topic:
                by_topic[reading.partition.topic] += [value for _, value in reading.records]
        found = Counter(self._input_of[value] for value in by_topic[self.results.name] if value in self._input_of)
        figures.transformed += found.total()
        for value in by_topic[self.source.name]:
            if found[value] != 1:
                self._context.history.report(Kind.UNPROCESSED, None, -1, f"{value[:60]!r} has {found[value]} results")


class _Worker:
    def __init__(self, whole: Transformation, context: WorkloadContext, name: str) -> None:
        self.process = ClientProcess(context, name, self._run)
        self.process.on_death = self._died
        self._whole = whole
        self._context = context
        self._chance = context.random(name)
        self._writer: TransactionalProducer | None = None

    def _died(self) -> None:
        if self._writer is not None:
            self._writer.abandon()

    async def _run(self, process: ClientProcess) -> None:
        while not process.must_leave():
            async with self._context.client(process.name) as cluster:
                name = f"{process.name}.{self._context.groups.moment()}"
                writer = TransactionalProducer(self._context, name, cluster, process.name, self._chance)
                consumer = self._whole.consumer(cluster, self._chance)
                self._writer = writer
                try:
                    await self._transform(process, consumer, writer)
                except TROUBLE:
                    await asyncio.sleep(0.2)
                finally:
                    writer.abandon()
                    with suppress(*TROUBLE):
                        await writer.producer.close()
                    with suppress(*TROUBLE):
                        await consumer.close()

    async def _transform(self, process: ClientProcess, consumer: GroupConsumer, writer: TransactionalProducer) -> None:
        """Returns or raises when a new consumer and a new producer are needed."""
        while not process.must_leave():
            polled = await consumer.poll(self._chance.choice((1, 10, 100)), wait_s=self._context.poll_s(0.3))
            if consumer.is_joined:
                who = consumer.group_metadata
                self._context.groups.given(GROUP, who.generation_id, who.member_id, list(consumer.assignment))
            if not polled:
                continue
            try:
                fate = await self._transact(consumer, writer, polled)
            except ProducerFenced:
                raise
            except TransactionAborted:
                await writer.abort()
                fate = Fate.ABORTED
            if fate is Fate.UNKNOWN:
                return
            if fate is Fate.ABORTED:
                consumer.rewind()

    async def _transact(
        self, consumer: GroupConsumer, writer: TransactionalProducer, polled: Mapping[TopicPartition, list[Record]]
    ) -> Fate:
        groups, who = self._context.groups, consumer.group_metadata
        await writer.begin()
        for records in polled.values():
            for record in records:
                await writer.send(self._chance.choice(self._whole.results.partitions), self._whole.result_of(record))
        offsets = {name: consumer.position(name) for name in polled}
        is_stale = groups.is_stale(who.group_id, who.member_id, who.generation_id)
        commit = groups.begin_commit(GROUP, offsets, is_stale=is_stale)
        await writer.producer.send_offsets(offsets, who)
        groups.accepted(commit, who.member_id)
        if self._chance.random() < 0.2:
            await asyncio.sleep(self._chance.choice((0.5, 3.0)))
        if self._chance.random() < 0.1:
            await writer.abort()
            fate = Fate.ABORTED
        else:
            fate = await writer.commit()
        if fate is Fate.COMMITTED:
            groups.committed(commit)
        elif fate is Fate.ABORTED:
            groups.refused(commit)
        return fate
