"""Every log of a node: opened, flushed, checkpointed, closed.

Checkpoints are hints for the next start, but they must never promise too much. So a recovery point is stored only after
everything below it was synced, and a log's start before the files below it are removed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.runtime.tasks import Breather, outlast
from headrace.runtime.threads import GENERAL, GENERAL_WORKERS
from headrace.storage import checkpoints, layout
from headrace.storage.compaction import swap
from headrace.storage.compaction.mark import NOTHING_CLEAN, store_mark
from headrace.storage.damage import DamagedLog
from headrace.storage.flusher import LANE, Flusher
from headrace.storage.handles import OPEN_FILES, Handles
from headrace.storage.recovery import create_log, open_log
from headrace.storage.segment import NO_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.model.names import LogId, TopicPartition
    from headrace.runtime.disk import Disk
    from headrace.runtime.world import World
    from headrace.storage.compaction.choice import Mark
    from headrace.storage.compaction.job import CleanedRun
    from headrace.storage.log import PartitionLog
    from headrace.storage.recovery import RecoveryReport
    from headrace.storage.settings import LogSettings

    WantedLog = tuple[TopicPartition, LogSettings]
    PreparedLog = tuple[PartitionLog, RecoveryReport | None] | DamagedLog | Refusal

T = TypeVar("T")

ROOM_FOR_BOTH = 2  # a damaged copy is kept only if its successor, and as much again of other logs, still fits


class LogStore:
    def __init__(
        self,
        world: World,
        *,
        on_flushed: Callable[[PartitionLog], None],
        on_recovered: Callable[[RecoveryReport], None] = lambda _: None,
        open_files: int = OPEN_FILES,
    ) -> None:
        self.world = world
        self.flusher = Flusher(world, on_flushed=on_flushed)
        self._on_recovered = on_recovered
        self._handles = Handles(world.disk, open_files=open_files)
        self._logs: dict[LogId, PartitionLog] = {}
        self._unopened: dict[LogId, None] = {}
        self._ahead: dict[LogId, PreparedLog] = {}
        """Opened, but not yet asked for."""
        self._recovery_points: dict[LogId, int] = {}
        """As stored. Also of logs that could not be opened: they will be tried again."""
        self._start_offsets: dict[LogId, int] = {}
        self.set_aside_damaged: dict[LogId, None] = {}
        """Logs of which a damaged copy is kept until the new one is whole."""
        self._checkpointing = asyncio.Lock()
        self._rewriting = asyncio.Lock()
        """Held while a log's files change under it: no cut may come between the steps of a swap."""
        self._unsettled: dict[LogId, Callable[[], None]] = {}
        """The rest of a swap that a full disk did not let end. Until it does, a start would do it again."""

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
        found: list[LogId] = []
        for name in disk.list(layout.TOPICS):
            if name.endswith(layout.DELETED):
                disk.remove_directory(f"{layout.TOPICS}/{name}")
            elif (log_id := layout.log_id_of(name.removesuffix(layout.DAMAGED))) is not None:
                if name.endswith(layout.DAMAGED):
                    self.set_aside_damaged[log_id] = None
                else:
                    found.append(log_id)
        self._recovery_points = checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)
        self._start_offsets = checkpoints.read_offsets(disk, checkpoints.START_OFFSETS)
        return found

    async def run(self) -> None:
        """Flush until cancelled. Ends with a DiskFailure if the disk fails."""
        await self.flusher.run()

    async def close(self) -> None:
        """Flush and close every log, and leave a mark that all is in order. Nothing is written afterwards."""
        logs = list(self._logs.values())
        await self.flusher.flush(logs)
        breather = Breather(self.world.clock)
        closed: dict[LogId, int] = {}
        for log in logs:
            if _close_cleanly(log):
                closed[log.log_id] = log.flushed_offset
            await breather.breathe()
        is_complete = not self._unopened and len(closed) == len(logs)
        async with self._checkpointing:
            await self.flusher.sync_everything()
            points = {**self._recovery_points, **closed}
            is_stored = await self._write(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points))
            if await self._store_starts() and is_stored and is_complete:
                await self._write(checkpoints.CLEAN_SHUTDOWN, b"")
        self._logs.clear()

    # Logs

    def log_ids(self) -> list[LogId]:
        """The logs on disk that nobody has opened."""
        return list(self._unopened)

    def holds_unused(self, log_id: LogId) -> bool:
        """Whether there is such a log that nobody was given: on disk, or prepared."""
        return log_id in self._unopened or log_id in self._ahead

    async def prepare(self, wanted: Mapping[LogId, WantedLog]) -> None:
        """Open or create many logs at once. `open_or_create` then hands each out, or raises what went wrong with it."""
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

    def others_have(self, log_id: LogId) -> None:
        """If it is not on disk any more it begins at 0, and not where it once was safe: all of it can be fetched."""
        if log_id not in self._logs and log_id not in self._unopened:
            self._recovery_points.pop(log_id, None)

    def _create(self, log_id: LogId, name: TopicPartition, settings: LogSettings) -> PartitionLog:
        # If somebody removed the only copy, offsets that consumers have seen must not be given out again.
        start_offset = self._recovery_points.get(log_id, 0)
        try:
            return create_log(log_id, name.topic, self._handles, settings, start_offset=start_offset)
        except OSError as error:
            raise _trouble(error, f"create {name}") from error

    def _open(self, log_id: LogId, settings: LogSettings) -> tuple[PartitionLog, RecoveryReport]:
        try:
            return open_log(
                log_id,
                self._handles,
                settings,
                recovery_point=self._recovery_points.get(log_id, 0),
                start_offset=self._start_offsets.get(log_id, 0),
                is_synced=True,
            )
        except OSError as error:
            raise _trouble(error, f"open {layout.directory_of(log_id)}") from error

    async def delete(self, log_id: LogId) -> None:
        """Remove a log, open or not. Slices of it that are on their way out still get there."""
        async with self._rewriting:
            async with self._checkpointing:  # or what is being stored of it would be remembered again
                self._let_go(log_id)
            await self._run(partial(self._remove_directory, layout.directory_of(log_id)))
            await self.drop_damaged(log_id)

    def _let_go(self, log_id: LogId) -> None:
        prepared = self._ahead.pop(log_id, None)
        log = prepared[0] if isinstance(prepared, tuple) else self._logs.pop(log_id, None)
        if log is not None:
            log.close(is_clean=False)
        self._unopened.pop(log_id, None)
        self._unsettled.pop(log_id, None)
        self._recovery_points.pop(log_id, None)
        self._start_offsets.pop(log_id, None)

    async def drop_damaged(self, log_id: LogId) -> None:
        """Remove the damaged copy of a log, if there is one: a whole one took its place."""
        if log_id in self.set_aside_damaged:
            del self.set_aside_damaged[log_id]
            damaged = layout.directory_of(log_id) + layout.DAMAGED
            await self._run(partial(self._remove_directory, damaged))

    async def begin_anew(
        self, log_id: LogId, name: TopicPartition, settings: LogSettings, start_offset: int, *, is_kept: bool = False
    ) -> PartitionLog:
        """Give up what the log holds, and go on with an empty one at `start_offset`: others have what belongs there.

        `is_kept`: what it held is damaged, and stays beside the new one until `drop_damaged`, if there is room for it.
        """
        async with self._rewriting, self._checkpointing:
            # First: a start that finds less than was safe takes it for damage.
            points = {known: point for known, point in self._recovery_points.items() if known != log_id}
            if not await self._write(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points)):
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be begun anew safely")
            self._recovery_points = points
            self._let_go(log_id)
            directory = layout.directory_of(log_id)
            if not is_kept:
                await self._run(partial(self._remove_directory, directory))
            elif await self._run(partial(self._set_damaged_aside, directory)):
                self.set_aside_damaged[log_id] = None
            create = partial(create_log, log_id, name.topic, self._handles, settings, start_offset=start_offset)
            try:
                self._logs[log_id] = log = await self._run(create)
            except OSError as error:
                raise _trouble(error, f"create {name}") from error
            return log

    async def set_aside(self, log_id: LogId) -> str:
        """Take a log out of the way that nobody knows; its bytes stay. Returns where they are now."""
        self._unopened.pop(log_id, None)
        directory = layout.directory_of(log_id)
        stray = directory + layout.STRAY
        await self._run(partial(self.world.disk.rename, directory, stray))
        return stray

    def _set_damaged_aside(self, directory: str) -> bool:
        """False if it was removed: there is no room for it beside its successor."""
        disk, damaged = self.world.disk, directory + layout.DAMAGED
        self._remove_directory(damaged)
        if not disk.exists(directory):
            return False
        size = sum(_size_of(disk, f"{directory}/{name}") for name in disk.list(directory))
        if disk.free_bytes() < size * ROOM_FOR_BOTH:
            self._remove_directory(directory)
            return False
        try:
            disk.rename(directory, damaged)
        except OSError as error:
            raise DiskFailure(f"the disk refused to rename {directory}: {error}") from error
        return True

    def _remove_directory(self, directory: str) -> None:
        disk = self.world.disk
        try:
            if disk.exists(directory):
                disk.rename(directory, directory + layout.DELETED)  # whole or gone, should we crash in the middle
                disk.remove_directory(directory + layout.DELETED)
        except OSError as error:
            raise DiskFailure(f"the disk refused to remove {directory}: {error}") from error

    async def truncate(self, log: PartitionLog, offset: int, on_cut: Callable[[], None] | None = None) -> None:
        """Cut the end off a log. Its recovery point goes down first: what is written there later is not yet safe.

        Nothing may be written to the log until this returns. `on_cut` is called in the moment that it ends elsewhere.
        """
        async with self._rewriting, self._checkpointing:
            await self._settle(log)
            end_offset = log.end_if_cut(offset)
            if log.mark is not None and log.mark.clean_end_offset > end_offset:
                await self._store_mark(log, log.mark._replace(clean_end_offset=end_offset))
            if self._recovery_points.get(log.log_id, 0) > end_offset:
                lowered = {**self._recovery_points, log.log_id: end_offset}
                if not await self._write(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(lowered)):
                    raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be truncated safely")
                self._recovery_points = lowered
            log.truncate(offset)
            if on_cut is not None:
                on_cut()
            await self._store_starts()
            await self._run(log.sync_cut, lane=LANE)

    # Compaction

    async def settle(self, log: PartitionLog) -> None:
        """End what a full disk has left of a swap, before anything is written beside the log that a start could take
        for a part of it. Refusal while there is still no room."""
        async with self._rewriting:
            await self._settle(log)

    async def _settle(self, log: PartitionLog) -> None:
        if (rest := self._unsettled.get(log.log_id)) is not None:
            await self._end_swap(log, rest)

    async def sweep(self, log: PartitionLog) -> None:
        """Remove what a pass wrote that came to nothing. The rest of a swap, if there is one, has to end first."""
        async with self._rewriting:
            if not log.is_closed and log.log_id not in self._unsettled:
                await self._change(partial(swap.sweep, self.world.disk, log.directory))

    async def swap(self, log: PartitionLog, cleaned: CleanedRun, cuts: int) -> bool:
        """Put cleaned segments in place; `cuts` tells how often the log had been truncated before it was read.

        False if the log has changed meanwhile, and what was cleaned was thrown away instead.
        """
        disk, directory = self.world.disk, log.directory
        discard = partial(swap.discard, disk, directory, cleaned)
        async with self._rewriting:
            if log.is_closed:
                return False  # and its directory is gone
            is_wanted = log.cuts == cuts and log.can_swap(cleaned)
            if is_wanted:
                if log.mark is None:
                    await self._store_mark(log, NOTHING_CLEAN)
                try:
                    await self._change(partial(swap.promise, disk, directory, cleaned))
                except Refusal:
                    await self._end_swap(log, discard)  # the cleaned files take up room
                    raise
                is_wanted = log.can_swap(cleaned)
            if not is_wanted:
                await self._end_swap(log, discard)
                return False
            log.swap(cleaned)
            await self._end_swap(log, partial(swap.conclude, disk, directory, cleaned))
            return True

    async def _end_swap(self, log: PartitionLog, rest: Callable[[], None]) -> None:
        self._unsettled[log.log_id] = rest
        await self._change(rest)
        self._unsettled.pop(log.log_id, None)

    async def _change(self, step: Callable[[], None]) -> None:
        await self._run(partial(_on_disk, step))

    async def note_clean(self, log: PartitionLog, mark: Mark, cuts: int) -> None:
        """The log is clean as far as that; `cuts` tells how often it had been truncated when that was found."""
        async with self._rewriting:
            if not log.is_closed and log.cuts == cuts:
                await self._store_mark(log, mark)

    async def _store_mark(self, log: PartitionLog, mark: Mark) -> None:
        await self._change(partial(store_mark, self.world.disk, log.directory, mark))
        log.mark = mark

    # Checkpoints

    async def write_checkpoints(self) -> None:
        """Store from where the next start must verify, and where each log begins. Call it every minute or so."""
        async with self._checkpointing:
            points = {
                log_id: point
                for log_id, point in self._recovery_points.items()
                if log_id in self._logs or log_id in self._unopened
            }
            breather = Breather(self.world.clock)
            for log in list(self._logs.values()):
                if not log.is_closed and points.get(log.log_id) != log.flushed_offset and _save_hints(log):
                    points[log.log_id] = log.flushed_offset
                await breather.breathe()
            if points != self._recovery_points:
                await self.flusher.sync_everything()
                if await self._write(checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets(points)):
                    self._recovery_points = points
            await self._store_starts()

    async def write_start_offsets(self) -> None:
        """Make moved log starts durable, as after DeleteRecords."""
        async with self._checkpointing:
            if not await self._store_starts():
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the new log start could not be stored")

    async def remove_garbage(self) -> None:
        """Remove the files of segments that retention dropped, once their logs are known to begin after them."""
        async with self._checkpointing:
            # Taken first: what retention drops while the starts are being stored must wait for the next time.
            garbage = {log: paths for log in self._logs.values() if (paths := log.take_garbage())}
            if not await self._store_starts():
                for log, paths in garbage.items():
                    log.give_back_garbage(paths)
                return
            paths = [path for paths in garbage.values() for path in paths]
            if paths:
                await self._run(partial(_remove_all, self.world.disk, paths))

    async def _store_starts(self) -> bool:
        starts = dict(self._start_offsets)
        for log in self._logs.values():
            if log.start_offset or log.log_id in starts:
                starts[log.log_id] = log.start_offset
        if starts == self._start_offsets:
            return True
        # Deleted batches live on in the snapshots of their producers: sequences, and transactions that began there.
        await self.flusher.sync_everything()
        if not await self._write(checkpoints.START_OFFSETS, checkpoints.encode_offsets(starts)):
            return False
        self._start_offsets = starts
        return True

    async def _run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        """In a thread, which goes on if the caller is cancelled: then so does the caller, with the locks it holds."""
        return await outlast(self.world.threads.run(call, lane=lane))

    async def _write(self, path: str, content: bytes) -> bool:
        """Replace a file durably; False if the disk is full, and the old one still stands."""
        return await self._run(partial(_replace_file, self.world.disk, path, content))


def _on_disk(step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        raise _trouble(error, "put compacted records in place") from error


def _trouble(error: OSError, what: str) -> Refusal | DiskFailure:
    """What an error of the disk means: no room is waited for, everything else ends the node."""
    if error.errno in NO_SPACE:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk is too full to {what}; free some space")
    return DiskFailure(f"the disk refused to {what}: {error}")


def _size_of(disk: Disk, path: str) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _save_hints(log: PartitionLog) -> bool:
    """False if the disk is too full for it: then the old recovery point must stand."""
    try:
        log.save_hints()
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


def _replace_file(disk: Disk, path: str, content: bytes) -> bool:
    try:
        disk.replace_file(path, content)
    except OSError as error:
        if error.errno in NO_SPACE:
            return False
        raise DiskFailure(f"the disk refused to write {path}: {error}") from error
    return True


def _remove_all(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        disk.remove(path)
