"""Reads what this node has stored, slowly and all of it, to find damage while other replicas can still mend it.

In the background only what is flushed is read: of the segment that is written to, once in a round, what the device has
of it by then. On demand everything is, at the disk's speed. Either way one piece at a time in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.runtime.tasks import Breather
from headrace.storage.files import checkpoints
from headrace.storage.files.disk_errors import NO_SPACE
from headrace.storage.files.scrub_marks import LogEnds, ScrubMarks
from headrace.storage.integrity.segment_check import SegmentCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.broker.partitions.counters import Counters
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.model.names import LogId, TopicPartition
    from headrace.runtime.world import World
    from headrace.storage.files.damage import DamagedRange
    from headrace.storage.files.scrub_marks import ScrubMark
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.segments.segment_span import SegmentSpan

LANE: Final = "scrub"
STEP_BYTES: Final = 1 << 20  # one visit to the thread: a tenth of a second at the default speed
LOOK_S: Final = 60.0  # how soon a segment that was closed, or has become due, is noticed
SAVE_S: Final = 60.0  # what a crash may forget of the work done
ALL: Final = -1


@dataclass(slots=True)
class Progress:
    """Of what was asked for. It ends when everything is checked; the next question begins another."""

    checked_bytes: int = 0
    total_bytes: int = 0
    damaged: list[tuple[TopicPartition, DamagedRange]] = field(default_factory=list)
    is_running: bool = False


class Scrub:
    def __init__(
        self,
        world: World,
        topics: TopicTable,
        settings: Callable[[], NodeSettings],
        counters: Counters,
        on_damage: Callable[[Partition, Sequence[DamagedRange]], None],
    ) -> None:
        self.progress = Progress()
        self._world = world
        self._topics = topics
        self._settings = settings
        self._counters = counters
        self._on_damage = on_damage
        self._marks = ScrubMarks()
        self._saved_s = world.clock.monotonic_s()
        self._saved: Mapping[LogId, ScrubMark] = {}
        self._asked: deque[tuple[Partition, SegmentSpan]] = deque()
        self._news = asyncio.Event()

    # ---- in the background

    async def run(self) -> None:
        self._marks = ScrubMarks(await self._world.threads.run(partial(checkpoints.read_scrubs, self._world.disk)))
        while True:
            for partition in await self._due():
                await self._go_through(partition)
            await self._save()
            await asyncio.sleep(LOOK_S)

    async def _due(self) -> list[Partition]:
        settings = self._settings()
        if not settings.scrub_max_bytes_per_second:
            return []
        breather = Breather(self._world.clock)
        by_id, ends = {}, {}
        for partition in self._topics.partitions():
            by_id[partition.log_id] = partition
            ends[partition.log_id] = LogEnds(partition.log.closed_end, partition.log.flushing.flushed_end)
            await breather.breathe()
        self._marks.keep_only(by_id)
        due = self._marks.due(ends, self._world.clock.wall_ms(), settings.scrub_interval_ms)
        return [by_id[log_id] for log_id in due]

    async def _go_through(self, partition: Partition) -> None:
        settings, log, cuts = self._settings(), partition.log, partition.log.cuts
        from_offset = self._marks.begin(log.log_id, self._world.clock.wall_ms(), settings.scrub_interval_ms)
        for span in self._spans(log, from_offset):
            is_whole = await self._check(partition, span, is_throttled=True)
            if not is_whole or log.is_closed or log.cuts != cuts:
                self._marks.forget(log.log_id)
                return
            self._marks.checked(log.log_id, span.end_offset)
        if self._world.clock.monotonic_s() - self._saved_s > SAVE_S:
            await self._save()

    def _spans(self, log: PartitionLog, from_offset: int) -> Iterator[SegmentSpan]:
        """The active segment last, and only in a new round."""
        yield from log.spans.since(from_offset, closed_only=True)
        flushed = log.spans.flushed() if from_offset == 0 else None
        if flushed is not None:
            yield flushed

    async def _save(self) -> None:
        self._saved_s = self._world.clock.monotonic_s()
        marks = dict(self._marks.marks)
        if marks != self._saved:
            await self._world.threads.run(partial(self._write, marks))
            self._saved = marks

    def _write(self, marks: Mapping[LogId, ScrubMark]) -> None:
        try:
            self._world.disk.replace_file(checkpoints.SCRUBS, checkpoints.encode_scrubs(marks))
        except OSError as error:
            if error.errno not in NO_SPACE:  # a full disk only means that some of it is done again
                raise

    # ---- on demand

    def begin(self, topic: str | None = None, index: int = ALL, offset: int = ALL) -> None:
        """Check everything, a topic, a partition, or the segment of it that holds `offset`."""
        if not self.progress.is_running:
            self.progress = Progress()
        waiting = {(partition.log_id, span.base_offset) for partition, span in self._asked}
        for partition in self._topics.partitions():
            if (topic is not None and partition.name.topic != topic) or index not in {ALL, partition.index}:
                continue
            spans = partition.log.spans.since(max(offset, 0), closed_only=False)
            for span in spans if offset == ALL else spans[:1]:
                if (partition.log_id, span.base_offset) not in waiting:
                    self._asked.append((partition, span))
                    self.progress.total_bytes += span.size
                    self.progress.is_running = True
        self._news.set()

    async def serve(self) -> None:
        """Do what is asked for."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._asked:
                partition, span = self._asked[0]
                await self._check(partition, span, is_throttled=False)
                self._asked.popleft()
                self.progress.checked_bytes += span.size
            self.progress.is_running = False

    # ---- one segment

    async def _check(self, partition: Partition, span: SegmentSpan, *, is_throttled: bool) -> bool:
        """False if it is damaged. What was cut off or replaced meanwhile is nobody's concern any more."""
        damaged = await self._read(partition, span, is_throttled=is_throttled)
        if damaged:  # is it the file, or was it a cosmic ray on its way here? This question is worth a second look
            damaged = await self._read(partition, span, is_throttled=is_throttled)
        if not damaged:
            return True
        if not is_throttled:
            told = [(partition.name, found) for found in damaged]
            self.progress.damaged += [it for it in told if it not in self.progress.damaged]
        self._on_damage(partition, damaged)
        return False

    async def _read(self, partition: Partition, span: SegmentSpan, *, is_throttled: bool) -> list[DamagedRange]:
        log, cuts = partition.log, partition.log.cuts
        check = SegmentCheck(self._world.disk, span)
        while True:
            began_s = self._world.clock.monotonic_s()
            rate = self._settings().scrub_max_bytes_per_second if is_throttled else 0
            step = partial(check.step, min(STEP_BYTES, rate) or STEP_BYTES)
            count = await self._world.threads.run(step, lane=LANE)
            if check.is_gone or log.is_closed or log.cuts != cuts or not log.spans.has(span):
                return []
            self._counters.scrubbed_bytes += count
            if not count:
                self._counters.scrubbed_segments += 1
                return check.damaged
            if rate:
                await asyncio.sleep(max(0.0, began_s + count / rate - self._world.clock.monotonic_s()))
