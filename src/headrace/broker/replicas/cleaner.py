"""Keeps compacted logs small: looks for the dirtiest, has it cleaned, puts what stays in place, and so on.

The work itself is done elsewhere (`storage.compaction.workers`). Trouble with one log is that log's alone.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from headrace.model.errors import Refusal
from headrace.runtime.tasks import Breather, rest
from headrace.runtime.worker_process import WorkerProcessEnded
from headrace.storage.compaction.job import Damaged, Failed, Finished, Worked
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.files.cleaner_checkpoint import CleanerCheckpoint
from headrace.storage.files.damage import DamagedLog, UnreadableRecords
from headrace.storage.log.repairs import NotYet
from headrace.storage.segments.replacement import CleanedRun
from headrace.storage.settings import NO_LAG_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.model.names import LogId
    from headrace.runtime.clock import Clock
    from headrace.storage.compaction.choice import Dirtiness
    from headrace.storage.compaction.job import CleaningJob
    from headrace.storage.compaction.segment_replacer import SegmentReplacer
    from headrace.storage.compaction.workers import CleaningWorker
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.settings import CompactionSettings

log = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 1.0  # while cleaning is switched off


@dataclass(slots=True)
class CleaningState:
    """What is known of one log's cleaning, for metrics and people."""

    dirty_bytes: int = 0
    clean_bytes: int = 0
    passes: int = 0
    saved_bytes: int = 0
    last_pass_ms: int = -1
    """When the last pass ended well; -1 before the first."""
    last_pass_s: float = 0.0
    """How long it took."""
    error: str | None = None
    """Why the last pass failed, until one ends well."""
    errors: int = 0
    damaged: PartitionLog | None = None
    """The copy of the log that is damaged, and not cleaned any more. One that was fetched again is another."""

    @property
    def is_stopped(self) -> bool:
        return self.damaged is not None


class LogCleaner:
    def __init__(
        self,
        topics: TopicTable,
        replacer: SegmentReplacer,
        clock: Clock,
        worker: CleaningWorker,
        settings: Callable[[], NodeSettings],
    ) -> None:
        self._topics = topics
        self._replacer = replacer
        self._worker = worker
        self._settings = settings
        self._clock = clock
        self.states: dict[LogId, CleaningState] = {}
        """Of the logs that are to be compacted."""

    async def run(self) -> None:
        """Clean what is due, rest, and look again, until cancelled. Raises DiskFailure."""
        while True:
            settings = self._settings()
            if not settings.log_cleaner_enable:
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            await rest(settings.log_cleaner_backoff_ms / 1000)
            await self.clean_what_is_due()

    async def clean_what_is_due(self) -> None:
        """The dirtiest log first, until none is due. A log that made trouble waits for the next time."""
        troubled: set[LogId] = set()
        try:
            while due := await self._due(troubled):
                for partition in due:
                    if not await self._clean(partition):
                        troubled.add(partition.log_id)
        finally:
            await self._worker.rest()

    async def _due(self, troubled: set[LogId]) -> list[Partition]:
        """All at once: with thousands of them, to look at each again after every pass would take longer than those."""
        breather = Breather(self._clock)
        due: list[tuple[float, Partition]] = []
        known: set[LogId] = set()
        for partition in list(self._topics.partitions()):
            settings = partition.log.settings.compaction
            if settings is None:
                continue
            await breather.breathe()
            if partition.log.is_closed:
                continue
            known.add(partition.log_id)
            dirtiness = self._look_at(partition, settings)
            if dirtiness is not None and dirtiness.is_due and partition.log_id not in troubled:
                due.append((dirtiness.ratio, partition))
        for gone in self.states.keys() - known:
            del self.states[gone]
        due.sort(key=itemgetter(0), reverse=True)
        return [partition for _, partition in due]

    def _look_at(self, partition: Partition, settings: CompactionSettings) -> Dirtiness | None:
        """None if the log is not to be cleaned."""
        state = self.states.setdefault(partition.log_id, CleaningState())
        if state.damaged is partition.log:
            return None
        if state.is_stopped:
            state.damaged = state.error = None
        if partition.log.damage:
            _stop(partition, state, str(partition.log.damage.ranges[0]))
            return None
        now_ms = self._clock.wall_ms()
        try:
            _roll_if_late(partition.log, settings, now_ms)
            dirtiness = dirtiness_of(partition.log, settings, partition.last_stable_offset, now_ms)
        except NotYet:
            return None
        except DamagedLog as damage:
            _stop(partition, state, str(damage))
            partition.met(damage)
            return None
        state.dirty_bytes, state.clean_bytes = dirtiness.dirty_bytes, dirtiness.clean_bytes
        return dirtiness

    async def _clean(self, partition: Partition) -> bool:
        """One pass over one log. False if it came to nothing; then nothing is left of it that takes up room."""
        state = self.states[partition.log_id]
        try:
            await self._replacer.settle(partition.log)
            is_done = await self._pass_over(partition, state)
            if not is_done:
                await self._replacer.remove_unused(partition.log)
        except Refusal as trouble:
            _note_trouble(partition, state, trouble)
            return False
        return is_done

    async def _pass_over(self, partition: Partition, state: CleaningState) -> bool:
        settings = partition.log.settings.compaction
        if settings is None or partition.log.is_closed:
            return False
        # Others were looked at and cleaned since: it may have been cut, or have lost segments to retention.
        dirtiness = self._look_at(partition, settings)
        if dirtiness is None or not dirtiness.is_due:
            return False
        began_s = self._clock.monotonic_s()
        saved_before = state.saved_bytes
        try:
            job = cleaning_job(
                partition.log,
                settings,
                dirtiness,
                now_ms=self._clock.wall_ms(),
                key_map_bytes=self._settings().log_cleaner_dedupe_buffer_size,
            )
            finished = await self._perform(partition.log, job, state)
        except NotYet:
            return False
        except UnreadableRecords as problem:
            _stop(partition, state, str(problem))
            return False
        except DamagedLog as damage:
            _stop(partition, state, str(damage))
            partition.met(damage)
            return False
        except (Refusal, WorkerProcessEnded, OSError, ValueError) as trouble:
            _note_trouble(partition, state, trouble)
            return False
        if finished is None:
            return False  # it was cut or removed meanwhile
        state.passes += 1
        state.error = None
        state.last_pass_ms = self._clock.wall_ms()
        state.last_pass_s = self._clock.monotonic_s() - began_s
        log.info(
            "%s: compaction up to offset %d dropped %d records and freed %d bytes in %.1f s",
            partition.name,
            finished.clean_end_offset,
            finished.dropped_records,
            state.saved_bytes - saved_before,
            state.last_pass_s,
        )
        return True

    async def _perform(self, partition_log: PartitionLog, job: CleaningJob, state: CleaningState) -> Finished | None:
        """None if the log changed under it. What was swapped by then stays: it is as true as before."""
        cuts = partition_log.cuts
        bytes_per_s = self._settings().log_cleaner_io_max_bytes_per_second
        async with aclosing(self._worker.run(job, bytes_per_s)) as events:
            async for event in events:
                match event:
                    case Worked():
                        if partition_log.is_closed or partition_log.cuts != cuts:
                            return None
                    case CleanedRun():
                        if not await self._replacer.replace(partition_log, event, cuts):
                            return None
                        state.saved_bytes += job.size_between(event.base_offset, event.end_offset) - event.size
                    case Damaged():
                        raise event.as_error()
                    case Failed():
                        raise OSError(event.code, event.problem)
                    case Finished():
                        mark = CleanerCheckpoint(event.clean_end_offset, event.latest_horizon_ms)
                        await self._replacer.note_clean(partition_log, mark, cuts)
                        return event
        return None


def _roll_if_late(partition_log: PartitionLog, settings: CompactionSettings, now_ms: int) -> None:
    """What nobody writes to any more is compacted too, once it has waited long enough."""
    since_ms = partition_log.compaction.active_since_ms
    if settings.max_lag_ms < NO_LAG_LIMIT and 0 <= since_ms < now_ms - settings.max_lag_ms:
        try:
            partition_log.roll()
        except Refusal:
            log.debug("no room for a new segment of %s; it is rolled later", partition_log)


def _note_trouble(partition: Partition, state: CleaningState, trouble: Exception) -> None:
    state.errors += 1
    state.error = str(trouble)
    log.warning("%s was not compacted, and will be tried again: %s", partition.name, trouble)


def _stop(partition: Partition, state: CleaningState, damage: str) -> None:
    state.damaged = partition.log
    state.errors += 1
    state.error = damage
    log.log(partition.damage_level, "%s is not compacted any more: %s", partition.name, damage)
