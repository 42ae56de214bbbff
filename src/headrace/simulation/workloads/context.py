"""What the workloads of a run share: the cluster, the topics, the history, and when to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.client.connections.cluster import ClusterSettings
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from headrace.client.connections.cluster import Cluster
    from headrace.runtime.world import World
    from headrace.simulation.cluster import SimulatedCluster
    from headrace.simulation.history.groups import GroupHistory
    from headrace.simulation.history.history import History
    from headrace.simulation.history.transactions import TransactionHistory

PATIENT = ClusterSettings(connect_timeout_s=2.0, request_timeout_s=5.0, retry_for_s=20.0, reach_for_s=20.0)
ONE_ATTEMPT = ClusterSettings(connect_timeout_s=2.0, request_timeout_s=5.0, retry_for_s=0.0)
"""An operation that is never repeated has one outcome, or an unknown one; a repeated one may also come late."""

POLL_MAX_S = 2.0  # the longest that a client asks a node to keep it waiting, so that it notices others in time

SESSIONS_LONGER = 3  # in a long run: heartbeats are most of what a quiet group costs

# Bytes. Most real messages are small, and some fill a sector and more.
PADDINGS = (0, 0, 0, 20, 20, 100, 100, 300, 300, 2_000, 5_000)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that lives as long as the run."""

    name: str
    partition_count: int
    configs: dict[str, str]
    is_trimmed: bool = False
    """DeleteRecords is used on it."""
    is_expiring: bool = False
    """Retention takes its records while the run goes on."""
    is_reserved: bool = False
    """Only those write to it for whom it was made."""

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(self.partition_count)]


@dataclass
class WorkloadContext:
    """One for all clients of a run."""

    cluster: SimulatedCluster
    history: History
    transactions: TransactionHistory
    groups: GroupHistory
    topics: list[TopicPlan]
    pace: float = 1.0
    """How many times longer than in a short run clients wait from one thing to the next: a long one has no more work
    in it, but more time for things to go wrong."""
    goals: dict[TopicPartition, int] | None = None
    """Once set: how far every consumer must get before it may stop."""
    _is_over: bool = field(default=False, init=False)
    _value_count: int = field(default=0, init=False)

    def is_over(self) -> bool:
        """Nothing new is begun; what is under way comes to its end."""
        return self._is_over

    def end(self) -> None:
        self._is_over = True

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for topic in self.topics for partition in topic.partitions]

    @property
    def open_partitions(self) -> list[TopicPartition]:
        """Those that anybody may write to."""
        return [partition for topic in self.topics if not topic.is_reserved for partition in topic.partitions]

    @property
    def is_clustered(self) -> bool:
        return len(self.cluster.nodes) > 1

    @property
    def now_s(self) -> float:
        return self.cluster.universe.loop.time()

    def random(self, purpose: str) -> Random:
        return self.cluster.universe.random(purpose)

    def world(self, name: str) -> World:
        return self.cluster.client_host(name).world

    def client(self, name: str, settings: ClusterSettings = PATIENT) -> Cluster:
        return self.cluster.client(name, settings)

    def value(self, producer: str, chance: Random) -> bytes:
        """Unlike every other value of the run."""
        self._value_count += 1
        return b"%s/%d/" % (producer.encode(), self._value_count) + b"." * chance.choice(PADDINGS)

    def poll_s(self, seconds: float) -> float:
        """How long to wait for news, at this pace."""
        return max(seconds, min(seconds * self.pace, POLL_MAX_S))

    def session_ms(self, milliseconds: int) -> int:
        """How long a group's session is, or a part of it, at this pace."""
        return milliseconds if self.pace == 1.0 else SESSIONS_LONGER * milliseconds

    async def rest_between(self, seconds: float) -> None:
        """Wait from one thing to the next, at this pace."""
        await self.rest(seconds * self.pace)

    async def rest(self, seconds: float) -> None:
        """Sleep, but not past the end, or not far."""
        step_s = self.poll_s(0.2)
        while seconds > 0 and not self._is_over:
            await asyncio.sleep(min(step_s, seconds))
            seconds -= step_s


def draw_topics(chance: Random) -> list[TopicPlan]:
    """Small segments, by time and by the size of their index, so that rolls, retention and recovery meet often."""
    steady = TopicPlan("steady", chance.randint(1, 3), _small_segments(chance))
    packed = TopicPlan(
        "packed",
        chance.randint(1, 2),
        {
            **_small_segments(chance),
            "compression.type": chance.choice(("producer", "uncompressed", "gzip", "zstd")),
            "message.timestamp.type": chance.choice(("CreateTime", "LogAppendTime")),
        },
    )
    trimmed = TopicPlan("trimmed", chance.randint(1, 2), _small_segments(chance), is_trimmed=True)
    limit = chance.choice(({"retention.ms": str(chance.randint(3_000, 15_000))}, {"retention.bytes": "20000"}))
    expiring = TopicPlan(
        "expiring", 1, {**_small_segments(chance), **limit}, is_trimmed=chance.random() < 0.5, is_expiring=True
    )
    return [steady, *(topic for topic in (packed, trimmed, expiring) if chance.random() < 0.6)]


def reserved_topic(name: str, chance: Random) -> TopicPlan:
    """Nothing of it is ever deleted, so that all of it can be counted at the end."""
    return TopicPlan(name, chance.randint(1, 3), _small_segments(chance), is_reserved=True)


def _small_segments(chance: Random) -> dict[str, str]:
    return {
        "segment.ms": str(chance.choice((300, 1_000, 3_000, 10_000))),
        "segment.index.bytes": str(chance.choice((36, 60, 240, 10_000))),
        "index.interval.bytes": str(chance.choice((0, 100, 1_000, 4_096))),
    }
