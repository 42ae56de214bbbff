"""Reads chosen partitions of a topic, from a start to an end, in batches ready to be printed."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.messages.leaderless import LeaderWatch, is_leaderless, not_read
from headrace.cli.messages.starting_offsets import BeforeEnd, start_offset
from headrace.cli.terminal.output import answer_bytes, plural, talk
from headrace.client.connections.cluster import no_such_partition
from headrace.client.reading.consumer import AssignedConsumer, ConsumerSettings
from headrace.client.reading.merge import TimeMerge
from headrace.client.reading.offsets import Edge, find_bounds
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from headrace.cli.messages.deduplication import Batch, RepeatFilter
    from headrace.cli.messages.formatter import Formatter
    from headrace.cli.messages.starting_offsets import OffsetSpec
    from headrace.client.connections.cluster import Cluster
    from headrace.client.reading.consumer import Start
    from headrace.client.reading.offsets import IsolationLevel
    from headrace.wire.batches.records import Record

POLL_WAIT_S = 1.0
IDLE_WAIT_MS = 500  # long enough for a partition that has something to be heard, short enough to watch


@dataclass(frozen=True)
class Reading:
    """What to read."""

    topic: str
    partitions: tuple[int, ...]
    """Empty: all."""
    start: OffsetSpec
    is_following: bool
    poll_records: int
    is_by_time: bool
    idle_wait_ms: int | None
    isolation: IsolationLevel

    @property
    def edge(self) -> Edge:
        """Where a group begins in a partition in which it has no position."""
        return self.start if isinstance(self.start, Edge) else Edge.EARLIEST


class Tally:
    """Counts messages, leaves out repeats if it was asked to, and knows when it is enough."""

    def __init__(self, max_messages: int | None, repeats: RepeatFilter | None) -> None:
        self.count = 0
        self.repeats = repeats
        self._max_messages = max_messages

    @property
    def left(self) -> int:
        """Messages to go before it is enough."""
        return sys.maxsize if self._max_messages is None else self._max_messages - self.count

    def fresh(self, batch: Batch) -> Batch:
        return batch if self.repeats is None else self.repeats.fresh(batch)

    def summary(self, verb: str) -> str:
        dropped = "" if self.repeats is None else f", dropped {plural(self.repeats.dropped_count, 'repeat')}"
        return f"{verb} {plural(self.count, 'message')}{dropped}"


class Printing:
    """Prints batches of messages."""

    def __init__(self, formatter: Formatter, tally: Tally) -> None:
        self.tally = tally
        self._formatter = formatter

    def print(self, batch: Batch) -> None:
        """All of it. It has left this process when this returns."""
        fresh = self.tally.fresh(batch)
        if fresh:
            answer_bytes(b"".join([self._formatter(name, record) for name, record in fresh]))
            self.tally.count += len(fresh)


async def read_partitions(cluster: Cluster, reading: Reading, printing: Printing) -> None:
    """Without a group: nobody else decides what is read, and nothing is remembered."""
    tally = printing.tally
    names = await _partitions(cluster, reading)
    if tally.left <= 0:
        return
    settings = ConsumerSettings(isolation=reading.isolation, waits_for_leaders=True)
    async with AssignedConsumer(cluster, settings) as consumer:
        share = Share(cluster, consumer, reading, names)
        await share.keep_up()
        batches = _by_time(share, reading, tally) if reading.is_by_time else _as_they_come(share, reading, tally)
        async for batch in batches:
            printing.print(batch)
            if tally.left <= 0:
                break
        if consumer.skipped_count:
            talk(f"passed over {plural(consumer.skipped_count, 'offset')} that were deleted before they could be read")
        if share.given_up and tally.left > 0:
            raise not_read(share.given_up)


class Share:
    """Partitions to read. Each is begun when somebody leads it, and given up if nobody does for long, unless what is
    yet to come is wanted: then it is waited for."""

    def __init__(
        self, cluster: Cluster, consumer: AssignedConsumer, reading: Reading, names: list[TopicPartition]
    ) -> None:
        self.names = names
        self.given_up: list[TopicPartition] = []
        self._cluster = cluster
        self._consumer = consumer
        self._reading = reading
        self._unbegun = list(names)
        self._watch = LeaderWatch(cluster)

    @property
    def unfinished(self) -> list[TopicPartition]:
        return [*self._consumer.unfinished, *self._unbegun]

    async def poll(
        self, max_records: int, wait_s: float, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, list[Record]]:
        await self.keep_up()
        if self._consumer.is_finished:  # it would not wait, and others may yet be begun
            await asyncio.sleep(wait_s if self._unbegun else 0)
            return {}
        return await self._consumer.poll(max_records, wait_s, only)

    async def keep_up(self) -> None:
        await self._watch.look(self.names)
        led = [name for name in self._unbegun if not is_leaderless(self._cluster, name)]
        if led:
            await self._begin(led)
        if not self._reading.is_following:
            unfinished = set(self.unfinished)
            self._give_up([name for name in self._watch.given_up if name in unfinished])

    async def _begin(self, led: list[TopicPartition]) -> None:
        try:
            starts, ends = await _range(self._cluster, self._reading, led)
            await self._consumer.extend(starts, ends)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                raise
        else:
            self._unbegun = [name for name in self._unbegun if name not in starts]

    def _give_up(self, names: list[TopicPartition]) -> None:
        self._consumer.withdraw(names)
        self._unbegun = [name for name in self._unbegun if name not in names]
        self.given_up += names


async def _partitions(cluster: Cluster, reading: Reading) -> list[TopicPartition]:
    topic = await cluster.topic(reading.topic)
    for index in reading.partitions:
        if index >= len(topic.partitions):
            raise no_such_partition(topic, index)
    indexes = sorted(set(reading.partitions)) or range(len(topic.partitions))
    return [TopicPartition(reading.topic, index) for index in indexes]


async def _range(
    cluster: Cluster, reading: Reading, names: list[TopicPartition]
) -> tuple[dict[TopicPartition, Start], dict[TopicPartition, int]]:
    """Where to start and, unless what is yet to come is wanted too, where to end."""
    bounds = await find_bounds(cluster, names, reading.isolation)
    starts: dict[TopicPartition, Start] = {}
    for name in names:
        start = reading.start
        starts[name] = start_offset(start, *bounds[name]) if isinstance(start, (int, BeforeEnd)) else start
    return starts, {} if reading.is_following else {name: bounds[name][1] for name in names}


async def _as_they_come(share: Share, reading: Reading, tally: Tally) -> AsyncIterator[Batch]:
    while share.unfinished:
        taken = await share.poll(min(reading.poll_records, tally.left), POLL_WAIT_S)
        if taken:
            yield [(name, record) for name, records in taken.items() for record in records]


async def _by_time(share: Share, reading: Reading, tally: Tally) -> AsyncIterator[Batch]:
    idle_wait_s = math.inf if reading.idle_wait_ms is None else reading.idle_wait_ms / 1000
    if reading.is_following and reading.idle_wait_ms is None:
        idle_wait_s = IDLE_WAIT_MS / 1000
    merge = TimeMerge(share.names, idle_wait_s=idle_wait_s, now_s=time.monotonic())
    waited_for = list(share.names)
    while True:
        unfinished = set(share.unfinished)
        for name in [name for name in waited_for if name not in unfinished]:
            merge.end(name)
            waited_for.remove(name)
        taken = merge.take(time.monotonic(), min(reading.poll_records, tally.left))
        if taken:
            yield taken
            continue
        if merge.is_exhausted:
            return
        ready_at_s = merge.ready_at_s()
        wait_s = POLL_WAIT_S if ready_at_s is None else min(POLL_WAIT_S, ready_at_s - time.monotonic())
        fresh = await share.poll(reading.poll_records, max(0.0, wait_s), only=set(merge.hungry))
        for name, records in fresh.items():
            merge.add(name, records)
