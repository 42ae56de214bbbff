"""Every log of a node: opened, flushed, checkpointed, closed.

Checkpoints are hints for the next start, but they must never promise too much. So a recovery point is stored only after
everything below it was synced, and a log's start before the files below it are removed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import Breather, outlast
from headrace.runtime.threads import GENERAL_WORKERS
from headrace.storage.compaction.segment_replacer import SegmentReplacer
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.disk_errors import disk_trouble
from headrace.storage.files.disk_work import DiskWork
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import OPEN_FILES, SegmentCache
from headrace.storage.store.checkpointing import Checkpoints
from headrace.storage.store.directories import make_successor, put_successor, put_successors_left, remove_directory
from headrace.storage.store.flusher import Flusher
from headrace.storage.store.known_logs import KnownLogs
from headrace.storage.store.truncating import Truncation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.model.names import LogId, TopicPartition
    from headrace.runtime.world import World
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.job import RecoveryReport
    from headrace.storage.settings import LogSettings
    from headrace.storage.store.known_logs import PreparedLog

    WantedLog = tuple[TopicPartition, LogSettings]


class LogStore:
    def __init__(
        self,
        world: World,
        *,
        on_flushed: Callable[[PartitionLog], None],
        on_slow_disk: Callable[[float], None] = lambda _: None,
        on_recovered: Callable[[RecoveryReport], None] = lambda _: None,
        open_files: int = OPEN_FILES,
    ) -> None:
        self.world = world
        self.flusher = Flusher(world, on_flushed=on_flushed, on_slow=on_slow_disk)
        self._on_recovered = on_recovered
        self._cache = SegmentCache(world.disk, open_files=open_files)
        self._known = KnownLogs()
        self.set_aside_damaged: dict[LogId, None] = {}
        """Logs of which a damaged copy is kept until the new one is whole."""
        self._work = DiskWork(world)
        self.replacer = SegmentReplacer(self._work)
        self.checkpoints = Checkpoints(self._work, world.clock, self.flusher, self.replacer, self._known)
        self.truncation = Truncation(self._work, self.replacer, self.checkpoints)

    # Life

    async def start(self) -> None:
        """Find out what is on disk. Nothing is opened yet."""
        found = await self.world.threads.run(self._look_around)
        self._known.unopened = dict.fromkeys(found)

    def _look_around(self) -> list[LogId]:
        disk = self.world.disk
        if not disk.exists(checkpoints.CLEAN_SHUTDOWN):
            # The last process may have left bytes that only memory holds. Recovery must not take them for safe.
            disk.sync_everything()
        disk.make_directory(layout.TOPICS)
        disk.remove(checkpoints.CLEAN_SHUTDOWN)
        disk.sync_directory("")
        put_successors_left(disk)
        found: list[LogId] = []
        for name in disk.list(layout.TOPICS):
            if name.endswith(layout.DELETED):
                disk.remove_directory(f"{layout.TOPICS}/{name}")
            elif (log_id := layout.log_id_of(name.removesuffix(layout.DAMAGED))) is not None:
                if name.endswith(layout.DAMAGED):
                    self.set_aside_damaged[log_id] = None
                else:
                    found.append(log_id)
        self.checkpoints.load(found)
        return found

    async def run(self) -> None:
        """Flush until cancelled. Ends with a DiskFailure if the disk fails."""
        await self.flusher.run()

    async def close(self) -> None:
        """Flush and close every log, and leave a mark that all is in order. Nothing is written afterwards."""
        logs = list(self._known.open.values())
        await self.flusher.flush(logs)
        beside = [(log, log.hints.side_files()) for log in logs if not log.is_closed]
        await self.checkpoints.write_beside([file for _, files in beside for file in files])
        breather = Breather(self.world.clock)
        closed: dict[LogId, int] = {}
        for log, files in beside:
            if not all(file.is_written for file in files):
                log.close(is_clean=False)
            elif _close_cleanly(log):
                closed[log.log_id] = log.flushed_offset
            await breather.breathe()
        is_complete = not self._known.unopened and len(closed) == len(logs)
        await self.checkpoints.close(closed, is_complete=is_complete)
        self._known.open.clear()

    # Logs

    @property
    def open_count(self) -> int:
        """How many logs are open."""
        return len(self._known.open)

    def log_ids(self) -> list[LogId]:
        """The logs on disk that nobody has opened."""
        return list(self._known.unopened)

    def holds_unused(self, log_id: LogId) -> bool:
        """Whether there is such a log that nobody was given: on disk, or prepared."""
        return log_id in self._known.unopened or log_id in self._known.prepared

    async def prepare(self, wanted: Mapping[LogId, WantedLog]) -> None:
        """Open or create many logs at once. `open_or_create` then hands each out, or raises what went wrong with it."""
        await self._lower_points(wanted)
        waiting = [log_id for log_id in wanted if log_id not in self._known.open and log_id not in self._known.prepared]
        share = -(-len(waiting) // GENERAL_WORKERS) or 1
        loop = asyncio.get_running_loop()
        jobs = [
            loop.create_task(
                self.world.threads.run(partial(self._prepare_some, waiting[first : first + share], wanted))
            )
            for first in range(0, len(waiting), share)
        ]
        for job in jobs:
            self._known.prepared.update(await job)
        await self._keep_starts([log_id for log_id in waiting if log_id not in self._known.unopened])

    async def _lower_points(self, wanted: Iterable[LogId]) -> None:
        """What is written to a new log must not be taken for safe because an earlier one was."""
        outdated = self.checkpoints.points.outdated_among(wanted)
        if not outdated:
            return
        async with self.checkpoints.writing:
            is_stored = await self.checkpoints.points.store(self.checkpoints.points.all())
        if not is_stored:
            refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be created safely")
            self._known.prepared.update(dict.fromkeys(outdated, refusal))

    async def _keep_starts(self, created: Sequence[LogId]) -> None:
        """A crash must not bring back a log without its front: recovery would take all of it away."""
        begun = [log for log in self._known.created(created) if log.start_offset]
        if not begun:
            return
        try:
            await self.checkpoints.write_start_offsets()
        except Refusal as refusal:
            for log in begun:
                log.close(is_clean=False)
                self._known.prepared[log.log_id] = refusal

    def _prepare_some(self, log_ids: Sequence[LogId], wanted: Mapping[LogId, WantedLog]) -> dict[LogId, PreparedLog]:
        prepared: dict[LogId, PreparedLog] = {}
        for log_id in log_ids:
            name, settings = wanted[log_id]
            try:
                if log_id in self._known.unopened:
                    prepared[log_id] = self._open(log_id, settings)
                else:
                    prepared[log_id] = self._create(log_id, name, settings), None
            except (DamagedLog, Refusal) as trouble:
                prepared[log_id] = trouble
        return prepared

    async def open_or_create(self, log_id: LogId, name: TopicPartition, settings: LogSettings) -> PartitionLog:
        """The log, recovered if it was there. DamagedLog if it cannot be, Refusal while the disk has no room for it."""
        assert log_id not in self._known.open, f"{log_id} is open"
        await self.prepare({log_id: (name, settings)})
        prepared = self._known.prepared.pop(log_id)
        if isinstance(prepared, (DamagedLog, Refusal)):
            raise prepared
        log, report = prepared
        log.settings = settings
        self._known.unopened.pop(log_id, None)
        if report is not None:
            self._on_recovered(report)
        self._known.open[log_id] = log
        return log

    def others_have(self, log_id: LogId) -> None:
        """If it is not on disk any more it begins where it once began, not where it once was safe: the rest can be
        fetched."""
        if log_id not in self._known.open and log_id not in self._known.unopened:
            self.checkpoints.points.forget(log_id)

    def _create(self, log_id: LogId, name: TopicPartition, settings: LogSettings) -> PartitionLog:
        # If somebody removed the only copy, offsets that consumers have seen must not be given out again. And a start
        # that is still stored would take away what is written below it.
        start_offset = max(self.checkpoints.safe_offset(log_id), self.checkpoints.start_of(log_id))
        try:
            return create_log(log_id, name.topic, self._cache, settings, start_offset=start_offset)
        except OSError as error:
            raise disk_trouble(error, f"create {name}") from error

    def _open(self, log_id: LogId, settings: LogSettings) -> tuple[PartitionLog, RecoveryReport]:
        try:
            return open_log(
                log_id,
                self._cache,
                settings,
                recovery_point=self.checkpoints.safe_offset(log_id),
                start_offset=self.checkpoints.start_of(log_id),
                is_synced=True,
            )
        except OSError as error:
            raise disk_trouble(error, f"open {layout.directory_of(log_id)}") from error

    async def delete(self, log_id: LogId) -> None:
        """Remove a log, open or not. Slices of it that are on their way out still get there."""
        async with self.replacer.rewriting:
            async with self.checkpoints.writing:  # or what is being stored of it would be remembered again
                self._let_go(log_id)
            await self._work.run(partial(remove_directory, self.world.disk, layout.directory_of(log_id)))
            await self.drop_damaged(log_id)

    def _let_go(self, log_id: LogId) -> None:
        prepared = self._known.prepared.pop(log_id, None)
        log = prepared[0] if isinstance(prepared, tuple) else self._known.open.pop(log_id, None)
        if log is not None:
            log.close(is_clean=False)
        self._known.unopened.pop(log_id, None)
        self.replacer.forget(log_id)
        self.checkpoints.forget(log_id)

    async def drop_damaged(self, log_id: LogId) -> None:
        """Remove the damaged copy of a log, if there is one: a whole one took its place."""
        if log_id in self.set_aside_damaged:
            del self.set_aside_damaged[log_id]
            damaged = layout.directory_of(log_id) + layout.DAMAGED
            await self._work.run(partial(remove_directory, self.world.disk, damaged))

    async def begin_anew(
        self, log_id: LogId, name: TopicPartition, settings: LogSettings, start_offset: int, *, is_kept: bool = False
    ) -> PartitionLog:
        """Give up what the log holds, and go on with an empty one at `start_offset`: others have what belongs there.

        `is_kept`: what it held is damaged, and stays beside the new one until `drop_damaged`, if there is room for it.
        """
        async with self.replacer.rewriting, self.checkpoints.writing:
            # To its end, also if the caller is cancelled: a log that is gone and has no successor is missing.
            return await outlast(self._begin_anew(log_id, name, settings, start_offset, is_kept=is_kept))

    async def _begin_anew(
        self, log_id: LogId, name: TopicPartition, settings: LogSettings, start_offset: int, *, is_kept: bool
    ) -> PartitionLog:
        # First: a start that finds less than was safe takes it for damage.
        points = self.checkpoints.points.all()
        points.pop(log_id, None)
        if not await self.checkpoints.points.store(points):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be begun anew safely")
        directory = layout.directory_of(log_id)
        await self._work.change(partial(make_successor, self.world.disk, directory), f"begin {name} anew")
        self._let_go(log_id)
        if await self._work.run(partial(put_successor, self.world.disk, directory, is_kept=is_kept)):
            self.set_aside_damaged[log_id] = None
        # Only now: the old log must not come back with the new one's start. And not later: what is flushed to a log
        # that begins nobody knows where is not found again.
        if not await self.checkpoints.store_start(log_id, start_offset):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk is full: the start of {name} cannot be stored")
        create = partial(create_log, log_id, name.topic, self._cache, settings, start_offset=start_offset)
        try:
            self._known.open[log_id] = log = await self._work.run(create)
        except OSError as error:
            raise disk_trouble(error, f"create {name}") from error
        return log

    async def set_aside(self, log_id: LogId) -> str:
        """Take a log out of the way that nobody knows; its bytes stay. Returns where they are now."""
        self._known.unopened.pop(log_id, None)
        self.checkpoints.points.forget(log_id)
        directory = layout.directory_of(log_id)
        stray = directory + layout.STRAY
        await self._work.run(partial(self.world.disk.rename, directory, stray))
        return stray


def _close_cleanly(log: PartitionLog) -> bool:
    try:
        log.close()
    except Refusal:
        log.close(is_clean=False)
        return False
    return True
