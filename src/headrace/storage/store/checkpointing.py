"""What is stored for the next start of all logs: from where it must verify, where each log begins, what was committed.

They are hints, but they must never promise too much. So a recovery point is stored only after everything below it was
synced, and a log's start before the files below it are removed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import Breather
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.side_files import note_written, write_all
from headrace.storage.store.stored_offsets import CommittedOffsets, RecoveryPoints, StartOffsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.model.names import LogId
    from headrace.runtime.clock import Clock
    from headrace.runtime.disk import Disk
    from headrace.storage.compaction.segment_replacer import SegmentReplacer
    from headrace.storage.files.disk_work import DiskWork
    from headrace.storage.files.side_files import SideFile
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.store.flusher import Flusher
    from headrace.storage.store.known_logs import KnownLogs


class Checkpoints:
    def __init__(
        self, work: DiskWork, clock: Clock, flusher: Flusher, replacer: SegmentReplacer, known: KnownLogs
    ) -> None:
        self._work = work
        self._clock = clock
        self._flusher = flusher
        self._replacer = replacer
        self._known = known
        self.points = RecoveryPoints(work)
        self._starts = StartOffsets(work)
        self._committed = CommittedOffsets(work)
        self.writing = asyncio.Lock()
        """Held while they are written, and while logs come or go of which they speak."""

    def load(self, found: Sequence[LogId]) -> None:
        """Blocks. `found` are the logs on disk."""
        self.points.load()
        self._starts.load(found)
        self._committed.load()

    def start_of(self, log_id: LogId) -> int:
        return self._starts.of(log_id)

    def forget(self, log_id: LogId) -> None:
        """The log goes."""
        self.points.forget(log_id)
        self._starts.forget(log_id)
        self._committed.forget(log_id)

    def safe_offset(self, log_id: LogId) -> int:
        """Up to where (exclusive) a log was once safe, also if it is not on disk any more; 0 if that is not known."""
        return self.points.of(log_id)

    def committed_offset(self, log_id: LogId) -> int:
        """Up to where (exclusive) a log was known to be committed at its last checkpoint; 0 if that is not known."""
        return self._committed.of(log_id)

    async def write(self) -> None:
        """Store from where the next start must verify, and where each log begins. Call it every minute or so."""
        # Or a replacement would put other files where these are written.
        async with self._replacer.rewriting, self.writing:
            points = self.points.all()  # also of logs that are missing: they must not begin below what was safe
            points |= await self._save_hints(await self._outdated_logs(points))
            if not self.points.is_stored(points):
                await self._flusher.sync_everything()
                await self.points.store(points)
            await self._store_starts()
            await self._committed.store({log_id: log.high_watermark for log_id, log in self._known.open.items()})

    async def _outdated_logs(self, points: Mapping[LogId, int]) -> list[PartitionLog]:
        """Those of which more could be said than these points do."""
        breather, outdated = Breather(self._clock), []
        for log in list(self._known.open.values()):
            await breather.breathe()
            if not log.is_closed and (points.get(log.log_id) != log.flushed_offset or log.hints.has_wrong_files):
                outdated.append(log)
        return outdated

    async def _save_hints(self, logs: Sequence[PartitionLog]) -> dict[LogId, int]:
        """Returns the logs for which there was room, and up to where they were flushed when their hints were taken."""
        breather = Breather(self._clock)
        taken: list[tuple[PartitionLog, int, list[SideFile]]] = []
        for log in logs:
            if not log.is_closed:
                taken.append((log, log.flushed_offset, log.hints.side_files()))
            await breather.breathe()
        await self.write_beside([file for _, _, files in taken for file in files])
        saved: dict[LogId, int] = {}
        for log, flushed_offset, files in taken:
            is_written = all(file.is_written for file in files)
            if not log.is_closed and is_written and _saved(log.hints.extend):
                saved[log.log_id] = flushed_offset
            await breather.breathe()
        return saved

    async def write_beside(self, files: Sequence[SideFile]) -> bool:
        """False if there was no room for all of them."""
        if files:
            await self._work.run(partial(write_all, self._work.disk, files))
        return note_written(files)

    async def write_start_offsets(self) -> None:
        """Make moved log starts durable, as after DeleteRecords."""
        async with self.writing:
            if not await self._store_starts():
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the new log start could not be stored")

    async def remove_garbage(self) -> None:
        """Remove the files of segments that retention dropped, once their logs are known to begin after them."""
        async with self.writing:
            # Taken first: what retention drops while the starts are being stored must wait for the next time.
            garbage = {log: paths for log in self._known.open.values() if (paths := log.retention.take_garbage())}
            paths = [path for paths in garbage.values() for path in paths]
            if not await self._store_starts() and not await self._store_starts_on_full_disk(paths):
                for log, paths in garbage.items():
                    log.retention.give_back_garbage(paths)
                return
            if paths:
                await self._work.run(partial(_remove_all, self._work.disk, paths))

    async def _store_starts_on_full_disk(self, garbage: Sequence[str]) -> bool:
        """Without a free block nothing could ever be deleted. Indexes may go first: if their segments come back after a
        crash, they are made again."""
        indexes = [path for path in garbage if path.endswith((layout.INDEX, layout.TIME_INDEX))]
        if not indexes:
            return False
        await self._work.run(partial(_remove_all, self._work.disk, indexes))
        return await self._store_starts()

    async def _store_starts(self, begun: Mapping[LogId, int] | None = None) -> bool:
        """`begun` are logs that nobody was given yet."""
        found = {log.log_id: log.start_offset for log in (*self._known.open.values(), *self._known.created())}
        starts = self._starts.changed_by({**found, **(begun or {})})
        if starts is None:
            return True
        # Who wrote what is deleted is asked by replicas that end there, and cannot be read from batches any more.
        moved = [log for log in self._known.open.values() if log.start_offset > self._starts.of(log.log_id)]
        if not await self.write_beside([file for log in moved if (file := log.hints.epochs_file()) is not None]):
            return False
        # Deleted batches live on in the snapshots of their producers: sequences, and transactions that began there.
        # And a log that was removed must not come back after this.
        await self._flusher.sync_everything()
        return await self._starts.store(starts)

    async def store_start(self, log_id: LogId, start_offset: int) -> bool:
        """Of a log that nobody was given yet. By whoever holds `writing`; False if the disk is full."""
        return await self._store_starts({log_id: start_offset})

    async def lower(self, log_id: LogId, end_offset: int, start_offset: int) -> bool:
        """The log is about to end and to begin there. By whoever holds `writing`; False if the disk is full."""
        is_safe = self.points.of(log_id) <= end_offset
        if not is_safe and not await self.points.store({**self.points.all(), log_id: end_offset}):
            return False
        return self._starts.of(log_id) == start_offset or await self._store_starts({log_id: start_offset})

    async def close(self, closed: Mapping[LogId, int], *, is_complete: bool) -> None:
        """The last ones, of logs that are closed: up to where each is safe. If that is all, and all is in order, a mark
        says so."""
        async with self.writing:
            await self._flusher.sync_everything()
            await self._committed.store({log_id: log.high_watermark for log_id, log in self._known.open.items()})
            is_stored = await self.points.store({**self.points.all(), **closed})
            if await self._store_starts() and is_stored and is_complete:
                await self._work.replace(checkpoints.CLEAN_SHUTDOWN, b"")


def _saved(save: Callable[[], None]) -> bool:
    """False if the disk is too full for it: then what is stored already must stand."""
    try:
        save()
    except Refusal:
        return False
    return True


def _remove_all(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        disk.remove(path)
