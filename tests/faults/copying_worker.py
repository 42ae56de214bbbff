"""A worker that copies records from one topic to another, exactly once: a process of its own, made to be killed.

Each round takes some records, writes a copy of each to the same partition of the output, and the offsets that follow
them, in one transaction. Now and then it gives a round up on purpose; the copies of such a round say that they are
doomed, so that nobody who reads committed records may ever see them.

    python -m tests.faults.copying_worker CLIENT BOOTSTRAP TRANSACTIONAL_ID SEED JOURNAL PARTITIONS

Whatever it cannot handle ends it; whoever watches over it starts it again.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
SESSION_MS = 1_500  # a dead member's partitions go to others after this
TRANSACTION_MS = 2_500  # what a dead worker left open is aborted after this
ROUND_RECORDS_MAX = 40
POLL_S = 0.2
DOOMED = 0.15
"""How often a round is given up on purpose."""
PAUSE_S_MAX = 0.1  # between two steps of a round, so that a kill finds each of them


class Doomed(Exception):
    """This round is to be given up."""


class Round:
    """What is decided before a round begins, and how it may be told from all others."""

    def __init__(self, name: str, chance: random.Random, number: int) -> None:
        self.label = f"{name}.{number}".encode()
        self.is_doomed = chance.random() < DOOMED
        self._chance = chance

    def copy_of(self, value: bytes) -> bytes:
        return b"%b|%b|%b" % (value, self.label, b"doomed" if self.is_doomed else b"meant")

    def pause_s(self) -> float:
        """Short as a rule, sometimes long enough to be noticed."""
        return self._chance.uniform(0.0, PAUSE_S_MAX) if self._chance.random() < 0.5 else 0.0


class Worker:
    def __init__(self, bootstrap: str, transactional_id: str, seed: int, journal: str, partitions: list[int]) -> None:
        self.bootstrap = bootstrap
        self.transactional_id = transactional_id
        self.partitions = partitions
        self._name = f"{transactional_id}.{seed}"
        self._chance = random.Random(self._name)
        self._journal = journal
        self._rounds = 0

    def run(self) -> None:
        """Work until it is killed, or cannot go on."""
        raise NotImplementedError

    def next_round(self) -> Round:
        self._rounds += 1
        return Round(self._name, self._chance, self._rounds)

    def note(self, outcome: str, count: int, reason: object = "") -> None:
        with open(self._journal, "a") as journal:
            journal.write(json.dumps([outcome, count, self._name, round(time.time(), 3), str(reason)]) + "\n")


class ConfluentWorker(Worker):
    """Shares the input with the others in a group; the generation it read in goes into the transaction (KIP-447)."""

    def run(self) -> None:
        self._gathered: list[Message] = []
        self._membership: Any = None
        quick = {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            # Otherwise librdkafka 2.16 forgets its brokers once all are down, but not which of them coordinates the
            # group: the next offsets of a transaction wait for that one for ever.
            "metadata.recovery.strategy": "none",
        }
        self._consumer = Consumer(
            {
                **quick,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 5,
                "max.poll.interval.ms": 60_000,
                "log_level": 0,
            }
        )
        self._producer = Producer(
            {
                **quick,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 2,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        _insist(self._producer.init_transactions)
        self._consumer.subscribe([INPUT], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        while True:
            self._gather()
            if self._gathered:
                self._copy(self._gathered, self.next_round())
                self._gathered = []

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Taken here, not at the commit: by then another generation may have begun behind our back.
        self._membership = consumer.consumer_group_metadata()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gathered.clear()

    def _gather(self) -> None:
        timeout_s = POLL_S
        while len(self._gathered) < ROUND_RECORDS_MAX:
            message = self._consumer.poll(timeout_s)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._gathered.append(message)
                timeout_s = 0.01
            elif error.fatal():
                raise KafkaException(error)

    def _copy(self, messages: list[Message], this: Round) -> None:
        producer = self._producer
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(OUTPUT, this.copy_of(message.value()), partition=message.partition())
            time.sleep(this.pause_s())
            if this.is_doomed:
                producer.flush()
                raise Doomed
            following = {message.partition(): message.offset() + 1 for message in messages}
            places = [TopicPartition(INPUT, partition, offset) for partition, offset in following.items()]
            _insist(lambda: producer.send_offsets_to_transaction(places, self._membership))
            time.sleep(this.pause_s())
            _insist(producer.commit_transaction)
        except (KafkaException, Doomed) as problem:
            if isinstance(problem, KafkaException) and not problem.args[0].txn_requires_abort():
                raise
            _insist(producer.abort_transaction)
            self.note("doomed" if this.is_doomed else "aborted", len(messages), problem)
            self._go_back(messages)
        else:
            self.note("committed", len(messages))

    def _go_back(self, messages: list[Message]) -> None:
        for message in reversed(messages):
            try:
                self._consumer.seek(TopicPartition(INPUT, message.partition(), message.offset()))
            except KafkaException:  # another member has the partition now
                continue


def _insist(step: Any) -> None:
    """librdkafka's calls may be made again after an error that it says is passing."""
    while True:
        try:
            step()
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise
        else:
            return


class AiokafkaWorker(Worker):
    """Has partitions of its own, for this client does not say in which generation it read.

    What keeps two workers apart is the transactional id alone: whoever takes it over has fenced the one before, and
    knows that what that one did is decided, before it asks for its place.
    """

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        places = [AiokafkaPartition(INPUT, partition) for partition in self.partitions]
        async with (
            AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
                linger_ms=2,
            ) as producer,
            AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                max_poll_records=ROUND_RECORDS_MAX,
            ) as consumer,
        ):
            consumer.assign(places)
            for place in places:
                consumer.seek(place, await consumer.committed(place) or 0)
            while True:
                taken = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=ROUND_RECORDS_MAX)
                if taken:
                    await self._copy(producer, consumer, taken, self.next_round())

    async def _copy(self, producer: Any, consumer: Any, taken: dict[Any, list[Any]], this: Round) -> None:
        count = sum(map(len, taken.values()))
        try:
            async with producer.transaction():
                for place, records in taken.items():
                    for record in records:
                        await producer.send(OUTPUT, this.copy_of(record.value), partition=place.partition)
                await asyncio.sleep(this.pause_s())
                if this.is_doomed:
                    await producer.flush()
                    raise Doomed
                following = {place: records[-1].offset + 1 for place, records in taken.items()}
                await producer.send_offsets_to_transaction(following, GROUP)
                await asyncio.sleep(this.pause_s())
        except Doomed as reason:
            self.note("doomed", count, reason)
            for place, records in taken.items():
                consumer.seek(place, records[0].offset)
        else:
            self.note("committed", count)


CLIENTS = {"confluent-kafka": ConfluentWorker, "aiokafka": AiokafkaWorker}


def main() -> None:
    client, bootstrap, transactional_id, seed, journal, partitions = sys.argv[1:]
    worker = CLIENTS[client](bootstrap, transactional_id, int(seed), journal, json.loads(partitions))
    try:
        worker.run()
    except Exception as problem:
        worker.note("ended", 0, repr(problem))
        raise


if __name__ == "__main__":
    main()
