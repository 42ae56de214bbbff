"""Every log of a node: opened, flushed, checkpointed, closed.

Checkpoints are hints for the next start, but they must never promise too much. So a recovery point is stored only after
everything below it was synced, and a log's start before the files below it are removed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.runtime.tasks import Breather, outlast
from headrace.runtime.threads import GENERAL_WORKERS
from headrace.storage.compaction.segment_replacer import SegmentReplacer
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.disk_errors import disk_trouble
from headrace.storage.files.disk_work import DiskWork
from headrace.storage.files.side_files import note_written, write_all
from headrace.storage.integrity.cut_copies import CutSegment, keep_tail
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import OPEN_FILES, SegmentCache
from headrace.storage.store.directories import make_successor, put_successor, put_successors_left, remove_directory
from headrace.storage.store.flusher import LANE, Flusher
from headrace.storage.store.stored_offsets import CommittedOffsets, RecoveryPoints, StartOffsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.model.names import LogId, TopicPartition
    from headrace.runtime.disk import Disk
    from headrace.runtime.world import World
    from headrace.storage.files.side_files import SideFile
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.log.truncation import CutSearch, FoundCut
    from headrace.storage.recovery.job import RecoveryReport
    from headrace.storage.settings import LogSettings

    WantedLog = tuple[TopicPartition, LogSettings]
    PreparedLog = tuple[PartitionLog, RecoveryReport | None] | DamagedLog | Refusal


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
        self._logs: dict[LogId, PartitionLog] = {}
        self._unopened: dict[LogId, None] = {}
        self._ahead: dict[LogId, PreparedLog] = {}
        """Opened, but not yet asked for."""
        self.set_aside_damaged: dict[LogId, None] = {}
        """Logs of which a damaged copy is kept until the new one is whole."""
        self._work = DiskWork(world)
        self._points = RecoveryPoints(self._work)
        self._starts = StartOffsets(self._work)
        self._committed = CommittedOffsets(self._work)
        self._checkpointing = asyncio.Lock()
        self.replacer = SegmentReplacer(self._work)

    # Life

    async def start(self) -> None:
        """Find out what is on disk. Nothing is opened yet."""
        found = await self.world.threads.run(self._look_around)
        self._unopened = dict.fromkeys(found)

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
        self._points.load()
        self._starts.load(found)
        self._committed.load()
        return found

    async def run(self) -> None:
        """Flush until cancelled. Ends with a DiskFailure if the disk fails."""
        await self.flusher.run()

    async def close(self) -> None:
        """Flush and close every log, and leave a mark that all is in order. Nothing is written afterwards."""
        logs = list(self._logs.values())
        await self.flusher.flush(logs)
        beside = [(log, log.hints.side_files()) for log in logs if not log.is_closed]
        await self._write_beside([file for _, files in beside for file in files])
        breather = Breather(self.world.clock)
        closed: dict[LogId, int] = {}
        for log, files in beside:
            if not all(file.is_written for file in files):
                log.close(is_clean=False)
            elif _close_cleanly(log):
                closed[log.log_id] = log.flushed_offset
            await breather.breathe()
        is_complete = not self._unopened and len(closed) == len(logs)
        async with self._checkpointing:
            await self.flusher.sync_everything()
            await self._committed.store({log.log_id: log.high_watermark for log in logs})
            is_stored = await self._points.store({**self._points.all(), **closed})
            if await self._store_starts() and is_stored and is_complete:
                await self._work.replace(checkpoints.CLEAN_SHUTDOWN, b"")
        self._logs.clear()

    # Logs

    @property
    def open_count(self) -> int:
        """How many logs are open."""
        return len(self._logs)

    def log_ids(self) -> list[LogId]:
        """The logs on disk that nobody has opened."""
        return list(self._unopened)

    def holds_unused(self, log_id: LogId) -> bool:
        """Whether there is such a log that nobody was given: on disk, or prepared."""
        return log_id in self._unopened or log_id in self._ahead

    async def prepare(self, wanted: Mapping[LogId, WantedLog]) -> None:
        """Open or create many logs at once. `open_or_create` then hands each out, or raises what went wrong with it."""
        await self._lower_points(wanted)
        waiting = [log_id for log_id in wanted if log_id not in self._logs and log_id not in self._ahead]
        share = -(-len(waiting) // GENERAL_WORKERS) or 1
        loop = asyncio.get_running_loop()
        jobs = [
            loop.create_task(
                self.world.threads.run(partial(self._prepare_some, waiting[first : first + share], wanted))
            )
            for first in range(0, len(waiting), share)
        ]
        for job in jobs:
            self._ahead.update(await job)
        await self._keep_starts([log_id for log_id in waiting if log_id not in self._unopened])

    async def _lower_points(self, wanted: Iterable[LogId]) -> None:
        """What is written to a new log must not be taken for safe because an earlier one was."""
        outdated = self._points.outdated_among(wanted)
        if not outdated:
            return
        async with self._checkpointing:
            is_stored = await self._points.store(self._points.all())
        if not is_stored:
            refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be created safely")
            self._ahead.update(dict.fromkeys(outdated, refusal))

    async def _keep_starts(self, created: Sequence[LogId]) -> None:
        """A crash must not bring back a log without its front: recovery would take all of it away."""
        begun = [it[0] for log_id in created if isinstance(it := self._ahead.get(log_id), tuple) and it[0].start_offset]
        if not begun:
            return
        try:
            await self.write_start_offsets()
        except Refusal as refusal:
            for log in begun:
                log.close(is_clean=False)
                self._ahead[log.log_id] = refusal

    def _prepare_some(self, log_ids: Sequence[LogId], wanted: Mapping[LogId, WantedLog]) -> dict[LogId, PreparedLog]:
        prepared: dict[LogId, PreparedLog] = {}
        for log_id in log_ids:
            name, settings = wanted[log_id]
            try:
                if log_id in self._unopened:
                    prepared[log_id] = self._open(log_id, settings)
                else:
                    prepared[log_id] = self._create(log_id, name, settings), None
            except (DamagedLog, Refusal) as trouble:
                prepared[log_id] = trouble
        return prepared

    async def open_or_create(self, log_id: LogId, name: TopicPartition, settings: LogSettings) -> PartitionLog:
        """The log, recovered if it was there. DamagedLog if it cannot be, Refusal while the disk has no room for it."""
        assert log_id not in self._logs, f"{log_id} is open"
        await self.prepare({log_id: (name, settings)})
        prepared = self._ahead.pop(log_id)
        if isinstance(prepared, (DamagedLog, Refusal)):
            raise prepared
        log, report = prepared
        log.settings = settings
        self._unopened.pop(log_id, None)
        if report is not None:
            self._on_recovered(report)
        self._logs[log_id] = log
        return log

    def safe_offset(self, log_id: LogId) -> int:
        """Up to where (exclusive) a log was once safe, also if it is not on disk any more; 0 if that is not known."""
        return self._points.of(log_id)

    def others_have(self, log_id: LogId) -> None:
        """If it is not on disk any more it begins where it once began, not where it once was safe: the rest can be
        fetched."""
        if log_id not in self._logs and log_id not in self._unopened:
            self._points.forget(log_id)

    def _create(self, log_id: LogId, name: TopicPartition, settings: LogSettings) -> PartitionLog:
        # If somebody removed the only copy, offsets that consumers have seen must not be given out again. And a start
        # that is still stored would take away what is written below it.
        start_offset = max(self.safe_offset(log_id), self._starts.of(log_id))
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
                recovery_point=self.safe_offset(log_id),
                start_offset=self._starts.of(log_id),
                is_synced=True,
            )
        except OSError as error:
            raise disk_trouble(error, f"open {layout.directory_of(log_id)}") from error

    async def delete(self, log_id: LogId) -> None:
        """Remove a log, open or not. Slices of it that are on their way out still get there."""
        async with self.replacer.rewriting:
            async with self._checkpointing:  # or what is being stored of it would be remembered again
                self._let_go(log_id)
            await self._work.run(partial(remove_directory, self.world.disk, layout.directory_of(log_id)))
            await self.drop_damaged(log_id)

    def _let_go(self, log_id: LogId) -> None:
        prepared = self._ahead.pop(log_id, None)
        log = prepared[0] if isinstance(prepared, tuple) else self._logs.pop(log_id, None)
        if log is not None:
            log.close(is_clean=False)
        self._unopened.pop(log_id, None)
        self.replacer.forget(log_id)
        self._points.forget(log_id)
        self._starts.forget(log_id)
        self._committed.forget(log_id)

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
        async with self.replacer.rewriting, self._checkpointing:
            # To its end, also if the caller is cancelled: a log that is gone and has no successor is missing.
            return await outlast(self._begin_anew(log_id, name, settings, start_offset, is_kept=is_kept))

    async def _begin_anew(
        self, log_id: LogId, name: TopicPartition, settings: LogSettings, start_offset: int, *, is_kept: bool
    ) -> PartitionLog:
        # First: a start that finds less than was safe takes it for damage.
        points = self._points.all()
        points.pop(log_id, None)
        if not await self._points.store(points):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be begun anew safely")
        directory = layout.directory_of(log_id)
        await self._work.change(partial(make_successor, self.world.disk, directory), f"begin {name} anew")
        self._let_go(log_id)
        if await self._work.run(partial(put_successor, self.world.disk, directory, is_kept=is_kept)):
            self.set_aside_damaged[log_id] = None
        # Only now: the old log must not come back with the new one's start. And not later: what is flushed to a log
        # that begins nobody knows where is not found again.
        if not await self._store_starts({log_id: start_offset}):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk is full: the start of {name} cannot be stored")
        create = partial(create_log, log_id, name.topic, self._cache, settings, start_offset=start_offset)
        try:
            self._logs[log_id] = log = await self._work.run(create)
        except OSError as error:
            raise disk_trouble(error, f"create {name}") from error
        return log

    async def set_aside(self, log_id: LogId) -> str:
        """Take a log out of the way that nobody knows; its bytes stay. Returns where they are now."""
        self._unopened.pop(log_id, None)
        self._points.forget(log_id)
        directory = layout.directory_of(log_id)
        stray = directory + layout.STRAY
        await self._work.run(partial(self.world.disk.rename, directory, stray))
        return stray

    def committed_offset(self, log_id: LogId) -> int:
        """Up to where (exclusive) a log was known to be committed at its last checkpoint; 0 if that is not known."""
        return self._committed.of(log_id)

    async def keep_tail(self, log: PartitionLog, offset: int) -> list[str]:
        """Copy what a log holds from `offset` on. Returns where; Refusal while there is no room for it."""
        async with self.replacer.rewriting, self._checkpointing:  # or its files may go while they are copied
            ends = [segment.base_offset for segment in log.segments[1:]]
            tail = [
                CutSegment(segment.log_path, segment.base_offset, segment.size)
                for segment, end in zip_longest(log.segments, ends)
                if end is None or end > offset
            ]
            try:
                return await self._work.run(partial(keep_tail, self.world.disk, log.directory, tail, offset))
            except OSError as error:
                raise disk_trouble(error, f"keep what is cut off {log.directory}") from error

    async def truncate(self, log: PartitionLog, offset: int, on_cut: Callable[[], None] | None = None) -> None:
        """Cut the end off a log. Its recovery point goes down first: what is written there later is not yet safe. So
        does its start: what is written below it would not be found.

        Nothing may be written to the log until this returns. `on_cut` is called in the moment that it ends elsewhere.
        """
        while (found := await self._find_cut(log, offset)) is not None:
            async with self.replacer.rewriting, self._checkpointing:
                if log.is_as_in(found.search):  # otherwise it is searched again
                    await self._cut(log, found, on_cut)

    async def _find_cut(self, log: PartitionLog, offset: int) -> FoundCut | None:
        """None if there is nothing to cut off. Without a lock: it may read for seconds."""
        while (search := await self._begin_cut(log, offset)) is not None:
            try:
                return await self._work.run(search.find)
            except (DamagedLog, DiskFailure):
                if log.is_as_in(search):  # otherwise what it was about to read is gone, or another
                    raise
        return None

    async def _begin_cut(self, log: PartitionLog, offset: int) -> CutSearch | None:
        """What a replacement has left to do is done before anybody looks: snapshots that it removes would mislead."""
        async with self.replacer.rewriting:
            await self.replacer.settle_held(log)
            return log.begin_cut(offset)

    async def _cut(self, log: PartitionLog, found: FoundCut, on_cut: Callable[[], None] | None) -> None:
        await self.replacer.lower_checkpoint(log, found.end_offset)
        start_offset = min(log.start_offset, found.search.offset)
        # To its end, also if the caller is cancelled: what was stored has to be known.
        if not await outlast(self._lower(log.log_id, found.end_offset, start_offset)):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be truncated safely")
        files = log.apply_cut(found)
        if files is None:
            return  # a segment was added or has expired meanwhile
        if on_cut is not None:
            on_cut()
        try:
            await self._work.run(files.write, lane=LANE)
        finally:
            log.finish_cut(files)

    async def _lower(self, log_id: LogId, end_offset: int, start_offset: int) -> bool:
        is_safe = self._points.of(log_id) <= end_offset
        if not is_safe and not await self._points.store({**self._points.all(), log_id: end_offset}):
            return False
        return self._starts.of(log_id) == start_offset or await self._store_starts({log_id: start_offset})

    # Checkpoints

    async def write_checkpoints(self) -> None:
        """Store from where the next start must verify, and where each log begins. Call it every minute or so."""
        # Or a replacement would put other files where these are written.
        async with self.replacer.rewriting, self._checkpointing:
            points = self._points.all()  # also of logs that are missing: they must not begin below what was safe
            points |= await self._save_hints(await self._outdated_logs(points))
            if not self._points.is_stored(points):
                await self.flusher.sync_everything()
                await self._points.store(points)
            await self._store_starts()
            await self._committed.store({log_id: log.high_watermark for log_id, log in self._logs.items()})

    async def _outdated_logs(self, points: Mapping[LogId, int]) -> list[PartitionLog]:
        """Those of which more could be said than these points do."""
        breather, outdated = Breather(self.world.clock), []
        for log in list(self._logs.values()):
            await breather.breathe()
            if not log.is_closed and (points.get(log.log_id) != log.flushed_offset or log.hints.has_wrong_files):
                outdated.append(log)
        return outdated

    async def _save_hints(self, logs: Sequence[PartitionLog]) -> dict[LogId, int]:
        """Returns the logs for which there was room, and up to where they were flushed when their hints were taken."""
        breather = Breather(self.world.clock)
        taken: list[tuple[PartitionLog, int, list[SideFile]]] = []
        for log in logs:
            if not log.is_closed:
                taken.append((log, log.flushed_offset, log.hints.side_files()))
            await breather.breathe()
        await self._write_beside([file for _, _, files in taken for file in files])
        saved: dict[LogId, int] = {}
        for log, flushed_offset, files in taken:
            is_written = all(file.is_written for file in files)
            if not log.is_closed and is_written and _saved(log.hints.extend):
                saved[log.log_id] = flushed_offset
            await breather.breathe()
        return saved

    async def _write_beside(self, files: Sequence[SideFile]) -> bool:
        """False if there was no room for all of them."""
        if files:
            await self._work.run(partial(write_all, self.world.disk, files))
        return note_written(files)

    async def write_start_offsets(self) -> None:
        """Make moved log starts durable, as after DeleteRecords."""
        async with self._checkpointing:
            if not await self._store_starts():
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the new log start could not be stored")

    async def remove_garbage(self) -> None:
        """Remove the files of segments that retention dropped, once their logs are known to begin after them."""
        async with self._checkpointing:
            # Taken first: what retention drops while the starts are being stored must wait for the next time.
            garbage = {log: paths for log in self._logs.values() if (paths := log.retention.take_garbage())}
            paths = [path for paths in garbage.values() for path in paths]
            if not await self._store_starts() and not await self._store_starts_on_full_disk(paths):
                for log, paths in garbage.items():
                    log.retention.give_back_garbage(paths)
                return
            if paths:
                await self._work.run(partial(_remove_all, self.world.disk, paths))

    async def _store_starts_on_full_disk(self, garbage: Sequence[str]) -> bool:
        """Without a free block nothing could ever be deleted. Indexes may go first: if their segments come back after a
        crash, they are made again."""
        indexes = [path for path in garbage if path.endswith((layout.INDEX, layout.TIME_INDEX))]
        if not indexes:
            return False
        await self._work.run(partial(_remove_all, self.world.disk, indexes))
        return await self._store_starts()

    async def _store_starts(self, begun: Mapping[LogId, int] | None = None) -> bool:
        """`begun` are logs that nobody was given yet."""
        created = [prepared[0] for prepared in self._ahead.values() if isinstance(prepared, tuple)]
        found = {log.log_id: log.start_offset for log in (*self._logs.values(), *created)}
        starts = self._starts.changed_by({**found, **(begun or {})})
        if starts is None:
            return True
        # Who wrote what is deleted is asked by replicas that end there, and cannot be read from batches any more.
        moved = [log for log in self._logs.values() if log.start_offset > self._starts.of(log.log_id)]
        if not await self._write_beside([file for log in moved if (file := log.hints.epochs_file()) is not None]):
            return False
        # Deleted batches live on in the snapshots of their producers: sequences, and transactions that began there.
        # And a log that was removed must not come back after this.
        await self.flusher.sync_everything()
        return await self._starts.store(starts)


def _saved(save: Callable[[], None]) -> bool:
    """False if the disk is too full for it: then what is stored already must stand."""
    try:
        save()
    except Refusal:
        return False
    return True


def _close_cleanly(log: PartitionLog) -> bool:
    try:
        log.close()
    except Refusal:
        log.close(is_clean=False)
        return False
    return True


def _remove_all(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        disk.remove(path)
