"""Producers with transactions: they commit, abort, forget to do either, and take each other's ids away."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError, ProducerFenced, TransactionAborted
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.reading.offsets import IsolationLevel, find_bounds
from headrace.model.errors import Refusal
from headrace.simulation.history.history import ACKS_ALL_IDEMPOTENT, Kind
from headrace.simulation.history.transactions import Fate
from headrace.simulation.workloads.produce_and_consume import TROUBLE
from headrace.wire.batches.header import Codec

if TYPE_CHECKING:
    from random import Random

    from headrace.client.connections.cluster import Cluster
    from headrace.client.producing.batch import Receipt
    from headrace.model.names import TopicPartition
    from headrace.simulation.history.history import Send
    from headrace.simulation.history.transactions import Transaction
    from headrace.simulation.workloads.client_processes import ClientProcess
    from headrace.simulation.workloads.context import WorkloadContext

TIMEOUTS_MS: Final = (1_500, 4_000, 8_000)
DELIVERY_TIMEOUT_S: Final = 6.0
END_ATTEMPTS: Final = 3  # to learn how a commit ended, before it is left alone
CLOSED_WITHIN_S: Final = 25.0  # after the last fault: the longest timeout, and its markers


class TransactionalProducer:
    """A production client's producer, and what it writes into the history."""

    def __init__(
        self,
        context: WorkloadContext,
        name: str,
        cluster: Cluster,
        transactional_id: str,
        chance: Random,
        timeout_ms: int | None = None,
    ) -> None:
        self._context = context
        self._name = name
        self._chance = chance
        self._transactional_id = transactional_id
        self._burst: list[tuple[Send, Receipt]] = []
        self.producer = BatchingProducer(
            cluster,
            ProducerSettings(
                codec=chance.choice((Codec.NONE, Codec.NONE, Codec.LZ4)),
                batch_bytes=chance.choice((500, 1 << 20)),
                linger_ms=chance.choice((0.0, 5.0)),
                delivery_timeout_s=DELIVERY_TIMEOUT_S,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms or chance.choice(TIMEOUTS_MS),
            ),
        )
        self.open: Transaction | None = None

    async def begin(self) -> Transaction:
        """The first time this takes the id from whoever has it."""
        await self.producer.begin_transaction()
        self._burst = []
        self.open = self._context.transactions.begin(self._transactional_id, self._name)
        return self.open

    async def send(self, partition: TopicPartition, value: bytes) -> None:
        assert self.open is not None
        history = self._context.history
        send = history.begin(self._name, partition, history.next_number(self._name), value, ACKS_ALL_IDEMPOTENT)
        self._context.transactions.add(self.open, send)
        receipt = await self.producer.send(partition.topic, None, value, partition=partition.partition)
        self._burst.append((send, receipt))

    async def settle_sends(self) -> None:
        """Wait for what was sent so far. Without this the commit waits for it."""
        burst, self._burst = self._burst, []
        for send, receipt in burst:
            with suppress(*TROUBLE):
                send.ok((await receipt).offset)

    async def commit(self) -> Fate:
        """Raises nothing but ProducerFenced, after which this producer is of no use."""
        transaction = self.open
        assert transaction is not None
        for attempt in range(END_ATTEMPTS):
            transaction.is_commit_asked = True
            try:
                await self.producer.commit_transaction()
            except TransactionAborted:
                await self.settle_sends()
                await self.abort()
                return Fate.ABORTED
            except ProducerFenced:
                raise
            except (ClientError, Refusal):
                if attempt == END_ATTEMPTS - 1:
                    return self._end(transaction, Fate.UNKNOWN)
            else:
                await self.settle_sends()
                return self._end(transaction, Fate.COMMITTED)
        raise AssertionError("every attempt returns or raises in the end")

    async def abort(self) -> None:
        transaction = self.open
        assert transaction is not None
        # Nothing of it will be seen: if it cannot be aborted now, it is when somebody asks for the id.
        self._end(transaction, Fate.ABORTED)
        await self.producer.abort_transaction()

    def _end(self, transaction: Transaction, fate: Fate) -> Fate:
        transaction.fate = fate
        self.open = None
        return fate

    def abandon(self) -> None:
        """Its producer is gone."""
        if self.open is not None:
            self.open.lost()
            self.open = None


class TransactionalClient:
    """A process with one producer after the other, all for the same transactional id."""

    def __init__(self, context: WorkloadContext, name: str, transactional_id: str) -> None:
        self._context = context
        self._transactional_id = transactional_id
        self._chance = context.random(name)
        self._number = 0
        self._current: TransactionalProducer | None = None

    def died(self) -> None:
        if self._current is not None:
            self._current.abandon()

    async def run(self, process: ClientProcess) -> None:
        while not (process.must_leave() or self._context.is_over()):
            self._number += 1
            name = f"{process.name}.{self._number}"
            if self._chance.random() < 0.2:
                with suppress(*TROUBLE):
                    await leave_open(self._context, process.name, name, self._chance.choice(TIMEOUTS_MS))
            async with self._context.client(process.name) as cluster:
                current = TransactionalProducer(self._context, name, cluster, self._transactional_id, self._chance)
                self._current = current
                try:
                    for _ in range(self._chance.randint(1, 10)):
                        if process.must_leave() or self._context.is_over():
                            break
                        await self._transact(current)
                        await self._context.rest_between(self._chance.choice((0.01, 0.1, 0.5)))
                except TROUBLE:
                    await asyncio.sleep(0.2)
                finally:
                    current.abandon()
                    with suppress(*TROUBLE):
                        await current.producer.close()

    async def _transact(self, current: TransactionalProducer) -> None:
        chance = self._chance
        await current.begin()
        for _ in range(chance.randint(1, 3)):
            for _ in range(chance.randint(1, 4)):
                partition = chance.choice(self._context.open_partitions)
                await current.send(partition, self._context.value(self._transactional_id, chance))
            if chance.random() < 0.6:
                await current.settle_sends()
            if chance.random() < 0.2:
                await asyncio.sleep(chance.choice((0.05, 0.5, 3.0)))
        match chance.choice(("commit", "commit", "commit", "abort", "dawdle", "leave")):
            case "commit":
                await current.commit()
            case "abort":
                if chance.random() < 0.5:
                    await current.settle_sends()
                await current.abort()
            case "dawdle":  # until the coordinator may have lost its patience
                await asyncio.sleep(chance.choice((0.5, 3.0, 6.0)))
                await current.commit()
            case _:
                raise ClientError("it has had enough")


async def leave_open(context: WorkloadContext, host: str, transactional_id: str, timeout_ms: int) -> None:
    """Begin a transaction and go, never to return. Only its timeout ends it."""
    chance = context.random(transactional_id)
    async with context.client(host) as cluster:
        current = TransactionalProducer(context, transactional_id, cluster, transactional_id, chance, timeout_ms)
        await current.begin()
        await current.send(chance.choice(context.open_partitions), context.value(transactional_id, chance))
        await current.settle_sends()


async def wait_closed(context: WorkloadContext, cluster: Cluster) -> None:
    """No transaction hangs: readers of committed records get to the end."""
    deadline_s = context.now_s + CLOSED_WITHIN_S
    while True:
        ends = await find_bounds(cluster, context.partitions)
        stable = await find_bounds(cluster, context.partitions, IsolationLevel.READ_COMMITTED)
        open_partitions = [partition for partition in context.partitions if stable[partition][1] < ends[partition][1]]
        if not open_partitions:
            return
        if context.now_s > deadline_s:
            for partition in open_partitions:
                detail = f"the last stable offset stays, the log ends at {ends[partition][1]}"
                context.history.report(Kind.HANGING, partition, stable[partition][1], detail)
            return
        await asyncio.sleep(0.5)
