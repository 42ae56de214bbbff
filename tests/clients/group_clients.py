"""Members of consumer groups in every client library and protocol, behind one small face.

Nothing about the libraries is changed; only their spelling differs. Each face tells what its member gained and gave
up, at the moment when the library says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import aiokafka
import kafka
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka.errors import KafkaError as KafkaPythonError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

POLL_S = 0.05
KAFKA_PYTHON_POLL_S = 1.0  # a poll that ends in the middle of a rebalance may lose the assignment, and never ask again
MESSAGES_PER_POLL_MAX = 200


class Place(NamedTuple):
    """A partition, spelled alike for all libraries."""

    topic: str
    partition: int


Positions = dict[Place, int]
"""The next offset to read of each partition."""


class Timing(NamedTuple):
    """None leaves it to the client."""

    session_ms: int | None = None
    heartbeat_ms: int | None = None
    metadata_ms: int | None = None
    poll_interval_ms: int | None = None


DEFAULTS = Timing()
LASTING = Timing(session_ms=30_000, heartbeat_ms=200, metadata_ms=300, poll_interval_ms=30_000)
"""Learns of everything soon, and is not missed if it is away or slow for a moment, however busy the machine is."""
FLEETING = LASTING._replace(session_ms=1000)
"""Is missed soon."""


@dataclass(frozen=True)
class Membership:
    """Who a member is and what it wants."""

    flavour: str
    servers: str
    group: str
    topics: tuple[str, ...]
    timing: Timing
    instance_id: str | None = None


class Listener(Protocol):
    def read(self, place: Place, offset: int) -> None: ...

    def gained(self, places: Iterable[Place]) -> None: ...

    def gives_up(self, places: Iterable[Place]) -> Positions:
        """What to commit before they are gone."""
        ...

    def lost(self, places: Iterable[Place]) -> None:
        """They went to somebody else before this member heard of it."""
        ...

    def failed(self, problem: str) -> None: ...


class Face(Protocol):
    def subscribe(self, topics: Collection[str]) -> None: ...

    def poll(self) -> None:
        """Wait a moment for messages, and tell of them. Rebalances happen in here."""
        ...

    def commit(self, positions: Positions) -> bool:
        """Whether the node has taken them."""
        ...

    def close(self) -> None: ...


class ConfluentMember:
    def __init__(self, membership: Membership, listener: Listener, **settings: object) -> None:
        self._listener = listener
        timing = membership.timing
        optional = {
            "group.instance.id": membership.instance_id,
            "topic.metadata.refresh.interval.ms": timing.metadata_ms,
            "max.poll.interval.ms": timing.poll_interval_ms,
        }
        if "group.protocol" not in settings:
            optional |= {"session.timeout.ms": timing.session_ms, "heartbeat.interval.ms": timing.heartbeat_ms}
        self._consumer = Consumer(
            {
                "bootstrap.servers": membership.servers,
                "group.id": membership.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                **{name: value for name, value in optional.items() if value is not None},
                **settings,
            }
        )

    def subscribe(self, topics: Collection[str]) -> None:
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, _: Any, partitions: Any) -> None:
        self._listener.gained(_places(partitions))

    def _on_revoke(self, _: Any, partitions: Any) -> None:
        self.commit(self._listener.gives_up(_places(partitions)))

    def _on_lost(self, _: Any, partitions: Any) -> None:
        self._listener.lost(_places(partitions))

    def poll(self) -> None:
        timeout_s = POLL_S
        for _ in range(MESSAGES_PER_POLL_MAX):
            message = self._consumer.poll(timeout_s)
            if message is None:
                return
            if message.error() is None:
                self._listener.read(Place(message.topic(), message.partition()), message.offset())
            else:
                self._listener.failed(str(message.error()))
            timeout_s = 0.0

    def commit(self, positions: Positions) -> bool:
        wanted = [ConfluentPartition(*place, offset) for place, offset in positions.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False) if wanted else []
        except KafkaException as refused:
            self._listener.failed(f"commit: {refused}")
            return False
        return not any(part.error for part in done)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Its listener is called on the thread that would have to send a commit: so all is committed before it polls."""

    def __init__(self, membership: Membership, listener: Listener) -> None:
        self._listener = listener
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=membership.servers,
            group_id=membership.group,
            group_instance_id=membership.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=500,
            **_python_settings(membership.timing),
        )

    def subscribe(self, topics: Collection[str]) -> None:
        self._consumer.subscribe(list(topics), listener=self)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._listener.gained(_places(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._listener.gives_up(_places(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        self._listener.lost(_places(lost))

    def poll(self) -> None:
        try:
            arrived = self._consumer.poll(int(KAFKA_PYTHON_POLL_S * 1000), max_records=MESSAGES_PER_POLL_MAX)
        except KafkaPythonError as error:
            self._listener.failed(repr(error))
        else:
            _tell(self._listener, arrived)

    def commit(self, positions: Positions) -> bool:
        wanted = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1) for place, offset in positions.items()
        }
        try:
            if wanted:
                self._consumer.commit(wanted)
        except KafkaPythonError as refused:
            self._listener.failed(f"commit: {refused!r}")
            return False
        return True

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AiokafkaMember(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """In an event loop of its own, which turns only while the face is asked for something, and in `poll`."""

    def __init__(self, membership: Membership, listener: Listener) -> None:
        self._listener = listener
        self._loop = asyncio.new_event_loop()
        self._consumer: aiokafka.AIOKafkaConsumer = self._loop.run_until_complete(self._start(membership))

    async def _start(self, membership: Membership) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=membership.servers,
            group_id=membership.group,
            group_instance_id=membership.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **_python_settings(membership.timing),
        )
        await consumer.start()
        return consumer

    def subscribe(self, topics: Collection[str]) -> None:
        self._loop.run_until_complete(self._subscribe(topics))

    async def _subscribe(self, topics: Collection[str]) -> None:
        self._consumer.subscribe(list(topics), listener=self)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._listener.gained(_places(assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._commit(self._listener.gives_up(_places(revoked)))

    def poll(self) -> None:
        self._loop.run_until_complete(self._poll())

    async def _poll(self) -> None:
        try:
            arrived = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MESSAGES_PER_POLL_MAX)
        except AiokafkaError as error:
            self._listener.failed(repr(error))
        else:
            # At once: the next turn of the loop may take a partition away, and its position must be known by then.
            _tell(self._listener, arrived)

    def commit(self, positions: Positions) -> bool:
        return self._loop.run_until_complete(self._commit(positions))

    async def _commit(self, positions: Positions) -> bool:
        wanted = {aiokafka.TopicPartition(*place): offset for place, offset in positions.items()}
        try:
            if wanted:
                await self._consumer.commit(wanted)
        except AiokafkaError as refused:
            self._listener.failed(f"commit: {refused!r}")
            return False
        return True

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def _python_settings(timing: Timing) -> dict[str, int]:
    named = {
        "session_timeout_ms": timing.session_ms,
        "heartbeat_interval_ms": timing.heartbeat_ms,
        "metadata_max_age_ms": timing.metadata_ms,
        "max_poll_interval_ms": timing.poll_interval_ms,
    }
    return {name: value for name, value in named.items() if value is not None}


def _places(partitions: Iterable[Any]) -> list[Place]:
    return [Place(part.topic, part.partition) for part in partitions]


def _tell(listener: Listener, arrived: Mapping[Any, Iterable[Any]]) -> None:
    for part, records in arrived.items():
        for record in records:
            listener.read(Place(part.topic, part.partition), record.offset)


def _confluent(strategy: str) -> Callable[[Membership, Listener], Face]:
    return lambda membership, listener: ConfluentMember(
        membership, listener, **{"partition.assignment.strategy": strategy}
    )


MODERN = "confluent-consumer"
FLAVOURS: Mapping[str, Callable[[Membership, Listener], Face]] = {
    "confluent-range": _confluent("range"),
    "confluent-cooperative": _confluent("cooperative-sticky"),
    MODERN: lambda membership, listener: ConfluentMember(membership, listener, **{"group.protocol": "consumer"}),
    "aiokafka": AiokafkaMember,
    "kafka-python": KafkaPythonMember,
}
