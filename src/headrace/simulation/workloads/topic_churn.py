"""Topics that come, change and go, and what must be true of them afterwards."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin, ConfigChange, Resource, ResourceType
from headrace.client.producing.producer import BatchingProducer, ProducerSettings
from headrace.client.reading.offsets import find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.simulation.history.history import Kind
from headrace.simulation.workloads.context import ONE_ATTEMPT
from headrace.simulation.workloads.produce_and_consume import TROUBLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from headrace.client.connections.view import Topic
    from headrace.simulation.history.history import History
    from headrace.simulation.workloads.context import WorkloadContext

NAMES = ("fleeting", "passing", "brief")  # few, so that names are used again
RETENTIONS_MS = ("60000", "3600000", "86400000")
RETENTION = "retention.ms"
PARTITIONS_MAX = 4
PROBE_FRACTION = 0.3
_ABOUT_TOPICS = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_ALREADY_EXISTS}


@dataclass
class Expected:
    """One topic as far as its keeper knows. Each operation is tried once, and one after the other."""

    exists: bool = False
    partition_count: int = 0
    retention_ms: str = ""
    is_certain: bool = True
    """False after an operation of unknown outcome: it may have happened, or happen later. Nobody touches it again."""


@dataclass
class TopicHistory:
    """What must be found at the end."""

    topics: dict[str, Expected] = field(default_factory=dict)

    def check(self, history: History, found: dict[str, Topic], retentions: dict[str, str]) -> None:
        for name, expected in self.topics.items():
            if not expected.is_certain:
                continue
            topic = found.get(name)
            if (topic is not None) != expected.exists:
                was = "was created" if expected.exists else "was deleted"
                history.report(Kind.METADATA, None, -1, f"{name} {was}, and that was acked")
            elif topic is not None and len(topic.partitions) != expected.partition_count:
                detail = f"{name} has {len(topic.partitions)} partitions, acked were {expected.partition_count}"
                history.report(Kind.METADATA, None, -1, detail)
            elif topic is not None and retentions.get(name) != expected.retention_ms:
                detail = f"{name} has {RETENTION}={retentions.get(name)}, acked was {expected.retention_ms}"
                history.report(Kind.METADATA, None, -1, detail)


async def churn_topics(context: WorkloadContext, name: str, told: TopicHistory) -> None:
    chance = context.random(name)
    number = 0
    while not context.is_over():
        await context.rest_between(chance.uniform(0.1, 3.0))
        topic = chance.choice(NAMES)
        expected = told.topics.setdefault(topic, Expected())
        if not expected.is_certain:
            number += 1
            topic = f"{topic}-{number}"
            expected = told.topics.setdefault(topic, Expected())
        if expected.is_certain:
            await _Keeper(context, name, topic, expected, chance).act()


class _Keeper:
    def __init__(self, context: WorkloadContext, name: str, topic: str, expected: Expected, chance: Random) -> None:
        self._context = context
        self._name = name
        self._topic = topic
        self._expected = expected
        self._chance = chance

    async def act(self) -> None:
        async with self._context.client(self._name, ONE_ATTEMPT) as cluster:
            admin = Admin(cluster)
            expected, chance = self._expected, self._chance
            if self._context.is_clustered and chance.random() < PROBE_FRACTION:
                await self._probe(admin)
                return
            if not expected.exists:
                await self._create(admin)
                return
            match chance.choice(("delete", "grow", "alter", "write")):
                case "delete":
                    if await self._try(
                        admin, lambda: admin.delete_topic(self._topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    ):
                        expected.exists = False
                case "grow" if expected.partition_count < PARTITIONS_MAX:
                    total = expected.partition_count + 1
                    if await self._try(admin, lambda: admin.add_partitions(self._topic, total)):
                        expected.partition_count = total
                case "alter":
                    retention_ms = chance.choice(RETENTIONS_MS)
                    resource = Resource(ResourceType.TOPIC, self._topic)
                    changes = [(RETENTION, ConfigChange.SET, retention_ms)]
                    if await self._try(admin, lambda: admin.alter_configs(resource, changes)):
                        expected.retention_ms = retention_ms
                case _:
                    with suppress(*TROUBLE):
                        async with BatchingProducer(cluster, ProducerSettings(delivery_timeout_s=5.0)) as producer:
                            await producer.send(self._topic, None, b"for this topic's life", partition=0)

    async def _create(self, admin: Admin) -> None:
        expected, chance = self._expected, self._chance
        partition_count, retention_ms = chance.randint(1, 3), chance.choice(RETENTIONS_MS)

        async def create() -> None:
            await admin.create_topic(self._topic, partitions=partition_count, configs={RETENTION: retention_ms})

        if await self._try(admin, create, ErrorCode.TOPIC_ALREADY_EXISTS):
            expected.exists = True
            expected.partition_count = partition_count
            expected.retention_ms = retention_ms
            await self._check_empty()

    async def _probe(self, admin: Admin) -> None:
        """What was acked is what every later decision goes by, whoever is asked: also one that led until just now."""
        if self._expected.exists:
            attempt, wanted = admin.create_topic(self._topic, partitions=1), ErrorCode.TOPIC_ALREADY_EXISTS
        else:
            attempt, wanted = admin.delete_topic(self._topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            await attempt
        except Refusal as refusal:
            if refusal.code not in _ABOUT_TOPICS or refusal.code == wanted:
                return
            detail = f"the node says {refusal.message}"
        except TROUBLE:
            return
        else:
            detail = "it was created once more" if self._expected.exists else "it was deleted once more"
        known = "exists" if self._expected.exists else "does not exist"
        self._context.history.report(Kind.METADATA, None, -1, f"{self._topic} {known}, and that was acked; {detail}")

    async def _check_empty(self) -> None:
        """A topic that is created anew has nothing of an earlier one of its name."""
        names = [TopicPartition(self._topic, index) for index in range(self._expected.partition_count)]
        async with self._context.client(self._name) as cluster:
            with suppress(*TROUBLE):
                for place, (first, end) in (await find_bounds(cluster, names)).items():
                    if (first, end) != (0, 0):
                        detail = f"a new topic begins with offsets {first} to {end}"
                        self._context.history.report(Kind.INVENTED, place, end, detail)

    async def _try(
        self, admin: Admin, attempt: Callable[[], Awaitable[object]], if_done: ErrorCode | None = None
    ) -> bool:
        """True if it was done. Otherwise nothing is certain any more, unless the node refused it.

        `if_done` is what whoever tries it again hears.
        """
        try:
            await attempt()
        except Refusal as refusal:
            if self._context.is_clustered and refusal.code == if_done:
                # Perhaps by the same request: a node whose controller is lost over it asks the next one, as Kafka's do.
                self._expected.is_certain = False
                return False
            if self._context.is_clustered and refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await self._probe(admin)  # clients look first, and the node that showed them may be behind
                return False
            if refusal.code in _ABOUT_TOPICS:
                was = "was created" if self._expected.exists else "was deleted, or never created"
                detail = f"{self._topic} {was}; the node says: {refusal.message}"
                self._context.history.report(Kind.METADATA, None, -1, detail)
            self._expected.is_certain = refusal.code == ErrorCode.KAFKA_STORAGE_ERROR
            return False
        except TROUBLE:
            self._expected.is_certain = False
            return False
        return True
