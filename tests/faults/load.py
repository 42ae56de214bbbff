"""Clients that keep a node busy through its crashes, and write down all they do in a history."""

from __future__ import annotations

import abc
import asyncio
import random
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.connections.cluster import ClusterSettings, system_cluster
from headrace.client.connections.connection import REQUEST_TIMEOUT_S
from headrace.client.errors import ClientError
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.model.errors import Refusal
from tests.faults.history import ACKS_ALL_IDEMPOTENT, History, Partition, Promise, Send
from tests.faults.log_readers import consumer_of
from tests.faults.node_process import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import Message

    from headrace.client.producing.batch import Receipt

IN_FLIGHT_MAX = 400
BURST_MAX = 12
PAUSE_S = 0.004
LARGE_EVERY = 50  # now and then a value that fills a good part of a batch
FOREVER_MS = 600_000  # longer than any outage here, so that a client retries until it knows the outcome
QUICK_RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}
UNKNOWN_OFFSET = -1


class Client(threading.Thread, abc.ABC):
    """A thread that works until it is told to stop. Whatever breaks it is raised by `end`."""

    def __init__(self, name: str, history: History, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.chance = random.Random(f"{name} {seed}")
        self.stopping = threading.Event()
        self.trouble: BaseException | None = None

    @abc.abstractmethod
    def work(self) -> None: ...

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised again where the test can see it
            self.trouble = error

    def whereabouts(self) -> str:
        """For whoever waits for it in vain: what broke it, or where it is just now."""
        if self.trouble is not None:
            return "broke: " + "".join(traceback.format_exception(self.trouble))
        if self.ident is None or (frame := sys._current_frames().get(self.ident)) is None:
            return "does not run"
        return "is here: " + "".join(traceback.format_stack(frame))

    def end(self) -> None:
        self.stopping.set()
        self.join(FOREVER_MS / 1000)
        assert not self.is_alive(), f"{self.name} did not end"
        if self.trouble is not None:
            raise self.trouble


class SendingClient(Client):
    def __init__(
        self, name: str, bootstrap: str, history: History, partitions: Sequence[Partition], promise: Promise, seed: int
    ) -> None:
        super().__init__(name, history, seed)
        self.bootstrap = bootstrap
        self.partitions = partitions
        self.promise = promise
        self.acked_count = 0

    def next_send(self) -> Send:
        number = self.history.next_number(self.name)
        size = 20_000 if number % LARGE_EVERY == 0 else self.chance.randrange(20, 1_200)
        value = b"%s#%d|" % (self.name.encode(), number) + self.chance.randbytes(size // 4).hex().encode() * 2
        return self.history.begin(self.name, self.chance.choice(self.partitions), number, value, self.promise)

    def acked(self, send: Send, offset: int | None) -> None:
        """None: the node has it, from an attempt before, and does not know where."""
        send.ok(UNKNOWN_OFFSET if offset is None else offset)
        self.acked_count += 1


class LibrdkafkaLoad(SendingClient):
    """confluent-kafka. Idempotent with acks=all, or with acks=1 and one request at a time, which keeps the order.

    One whose messages may time out promises less: it then takes a new epoch, and repeats what was under way.
    With `pause_s` it rests that long after each burst.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        partitions: Sequence[Partition],
        *,
        promise: Promise = ACKS_ALL_IDEMPOTENT,
        codec: str = "none",
        message_timeout_ms: int = FOREVER_MS,
        pause_s: float = 0.0,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(name, bootstrap, history, partitions, promise, seed)
        self._pause_s = pause_s
        reliability: Mapping[str, object] = (
            {"enable.idempotence": True} if promise.is_durable else {"acks": 1, "max.in.flight": 1}
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "compression.type": codec,
                "message.timeout.ms": message_timeout_ms,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "error_cb": self._on_error,
                **QUICK_RECONNECT,
                **reliability,
                **(settings or {}),
            }
        )
        self._in_flight = 0
        self.errors: list[KafkaError] = []
        """Errors that ended a send, so that its outcome is unknown."""

    def work(self) -> None:
        producer = self._producer
        while not self.stopping.is_set():
            for _ in range(self.chance.randint(1, BURST_MAX)):
                send = self.next_send()
                self._in_flight += 1
                producer.produce(
                    send.partition.topic,
                    send.value,
                    partition=send.partition.partition,
                    on_delivery=lambda error, message, send=send: self._delivered(send, error, message),
                )
            producer.poll(PAUSE_S)  # ends early if anything was acked
            self.stopping.wait(self._pause_s)
            while self._in_flight > IN_FLIGHT_MAX and not self.stopping.is_set():
                producer.poll(0.05)
        producer.flush(FOREVER_MS / 1000)

    def _delivered(self, send: Send, error: KafkaError | None, message: Message) -> None:
        self._in_flight -= 1
        if error is None:
            self.acked(send, message.offset())
        else:
            self.errors.append(error)

    def _on_error(self, error: KafkaError) -> None:
        """A node that is away is no news. A fatal error is: the node no longer knows its producer."""
        if error.fatal():
            self.trouble = KafkaException(error)
            self.stopping.set()


class HeadraceLoad(SendingClient):
    """Our own idempotent producer."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        partitions: Sequence[Partition],
        *,
        pause_s: float = 0.0,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        seed: int = 0,
    ) -> None:
        super().__init__(name, bootstrap, history, partitions, ACKS_ALL_IDEMPOTENT, seed)
        self._pause_s = pause_s
        self._request_timeout_s = request_timeout_s
        self.errors: list[Exception] = []

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        patience_s = FOREVER_MS / 1000
        reaching = ClusterSettings(
            request_timeout_s=self._request_timeout_s,
            retry_for_s=patience_s,
            reach_for_s=patience_s,
            backoff_max_s=0.2,
        )
        sending = ProducerSettings(linger_ms=2, delivery_timeout_s=patience_s)
        receipts: set[asyncio.Task[None]] = set()
        async with system_cluster(self.bootstrap, reaching) as cluster, BatchingProducer(cluster, sending) as producer:
            while not self.stopping.is_set():
                for _ in range(self.chance.randint(1, BURST_MAX)):
                    send = self.next_send()
                    receipt = await producer.send(
                        *send.partition[:1], None, send.value, partition=send.partition.partition
                    )
                    watcher = asyncio.create_task(self._watch(send, receipt))
                    receipts.add(watcher)
                    watcher.add_done_callback(receipts.discard)
                await asyncio.sleep(PAUSE_S + self._pause_s)
                while len(receipts) > IN_FLIGHT_MAX and not self.stopping.is_set():
                    await asyncio.sleep(PAUSE_S)
            await producer.flush()
            await asyncio.gather(*receipts)

    async def _watch(self, send: Send, receipt: Receipt) -> None:
        try:
            delivered = await receipt
        except (ClientError, Refusal) as error:
            self.errors.append(error)
        else:
            self.acked(send, delivered.offset)


class Watcher(Client):
    """A consumer that writes down all it reads: what was shown once must stay."""

    def __init__(self, name: str, bootstrap: str, history: History, partitions: Iterable[Partition]) -> None:
        super().__init__(name, history, 0)
        self.bootstrap = bootstrap
        self.partitions = partitions

    def work(self) -> None:
        consumer = consumer_of(self.bootstrap, **{"auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(*partition, 0) for partition in self.partitions])
        while not self.stopping.is_set():
            for message in consumer.consume(1000, timeout=0.2):
                if message.error() is None:
                    self.history.saw(Partition(message.topic(), message.partition()), message.offset(), message.value())
        consumer.close()


class TopicChurn(Client):
    """Creates and deletes topics, and remembers which of them must be there and which must not."""

    def __init__(self, name: str, bootstrap: str, history: History, seed: int = 0) -> None:
        super().__init__(name, history, seed)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_RECONNECT})
        self.present: set[str] = set()
        self.absent: set[str] = set()

    def work(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            topic = f"{self.name}-{number}"
            if self._is_done(self._admin.create_topics([NewTopic(topic, 3, 1)])[topic]):
                self.present.add(topic)
            if self.present and self.chance.random() < 0.5:
                victim = self.chance.choice(sorted(self.present))
                self.present.discard(victim)
                if self._is_done(self._admin.delete_topics([victim])[victim]):
                    self.absent.add(victim)
            self.stopping.wait(self.chance.uniform(0.0, 0.2))

    def _is_done(self, asked: object) -> bool:
        try:
            asked.result(PATIENCE_S)
        except KafkaException:
            return False
        return True

    def check(self) -> None:
        there = set(self._admin.list_topics(timeout=PATIENCE_S).topics)
        assert self.present <= there, f"created topics are gone: {sorted(self.present - there)}"
        assert not self.absent & there, f"deleted topics are back: {sorted(self.absent & there)}"


class RecordDeleter(Client):
    """Moves the start of logs forward, behind what producers know to be written."""

    def __init__(
        self, name: str, bootstrap: str, history: History, partitions: Sequence[Partition], seed: int = 0
    ) -> None:
        super().__init__(name, history, seed)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_RECONNECT})
        self._partitions = partitions

    def work(self) -> None:
        while not self.stopping.is_set():
            self.stopping.wait(self.chance.uniform(0.1, 0.4))
            partition = self.chance.choice(self._partitions)
            seen = self.history.seen.get(partition)
            if not seen:
                continue
            offset = next(reversed(seen)) - self.chance.randrange(0, 500)
            if offset <= self.history.delete_asked.get(partition, 0):
                continue
            self.history.ask_delete(partition, offset)
            asked = TopicPartition(*partition, offset)
            try:
                low = self._admin.delete_records([asked])[asked].result(PATIENCE_S).low_watermark
            except KafkaException:
                continue
            self.history.deleted(partition, low)


def create_topics(
    bootstrap: str, topics: Mapping[str, tuple[int, Mapping[str, str]]], replication_factor: int = 1
) -> list[Partition]:
    """Create topics given as name: (partitions, configs); every partition of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_RECONNECT})
    wanted = [
        NewTopic(name, count, replication_factor, config=dict(configs)) for name, (count, configs) in topics.items()
    ]
    for created in admin.create_topics(wanted).values():
        created.result(PATIENCE_S)
    return [Partition(name, index) for name, (count, _) in topics.items() for index in range(count)]


def wait_for_acks(clients: Iterable[Client], count: int) -> None:
    """Wait until each sending client has this many acks more than now, or has given up."""
    goals = [(client, client.acked_count + count) for client in clients if isinstance(client, SendingClient)]
    deadline_s = time.monotonic() + PATIENCE_S
    for client, goal in goals:
        while client.acked_count < goal:
            what = f"{client.name} has {client.acked_count} acks, waited for {goal}"
            assert client.is_alive(), f"{what}; it {client.whereabouts()}"
            assert time.monotonic() < deadline_s, f"{what}; it {client.whereabouts()}"
            time.sleep(0.01)
