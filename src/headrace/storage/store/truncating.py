"""The end of a log is cut off while it is in use. What was promised of it to the next start is taken back first."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.runtime.tasks import outlast
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.disk_errors import disk_trouble
from headrace.storage.integrity.cut_copies import CutSegment, keep_tail
from headrace.storage.store.flusher import LANE

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.compaction.segment_replacer import SegmentReplacer
    from headrace.storage.files.disk_work import DiskWork
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.log.truncation import FoundTruncation, TruncationSearch
    from headrace.storage.store.checkpointing import Checkpoints


class Truncation:
    def __init__(self, work: DiskWork, replacer: SegmentReplacer, checkpoints: Checkpoints) -> None:
        self._work = work
        self._replacer = replacer
        self._checkpoints = checkpoints

    async def keep_tail(self, log: PartitionLog, offset: int) -> list[str]:
        """Copy what a log holds from `offset` on. Returns where; Refusal while there is no room for it."""
        async with self._replacer.rewriting, self._checkpoints.writing:  # or its files may go while they are copied
            ends = [segment.base_offset for segment in log.segments[1:]]
            tail = [
                CutSegment(segment.log_path, segment.base_offset, segment.size)
                for segment, end in zip_longest(log.segments, ends)
                if end is None or end > offset
            ]
            try:
                return await self._work.run(partial(keep_tail, self._work.disk, log.directory, tail, offset))
            except OSError as error:
                raise disk_trouble(error, f"keep what is cut off {log.directory}") from error

    async def truncate(self, log: PartitionLog, offset: int, on_cut: Callable[[], None] | None = None) -> None:
        """Cut the end off a log. Its recovery point goes down first: what is written there later is not yet safe. So
        does its start: what is written below it would not be found.

        Nothing may be written to the log until this returns. `on_cut` is called in the moment that it ends elsewhere.
        """
        while (found := await self._find_cut(log, offset)) is not None:
            async with self._replacer.rewriting, self._checkpoints.writing:
                if log.is_as_in(found.search):  # otherwise it is searched again
                    await self._cut(log, found, on_cut)

    async def _find_cut(self, log: PartitionLog, offset: int) -> FoundTruncation | None:
        """None if there is nothing to cut off. Without a lock: it may read for seconds."""
        while (search := await self._begin_cut(log, offset)) is not None:
            try:
                return await self._work.run(search.find)
            except (DamagedLog, DiskFailure):
                if log.is_as_in(search):  # otherwise what it was about to read is gone, or another
                    raise
        return None

    async def _begin_cut(self, log: PartitionLog, offset: int) -> TruncationSearch | None:
        """What a replacement has left to do is done before anybody looks: snapshots that it removes would mislead."""
        async with self._replacer.rewriting:
            await self._replacer.settle_held(log)
            return log.begin_truncation(offset)

    async def _cut(self, log: PartitionLog, found: FoundTruncation, on_cut: Callable[[], None] | None) -> None:
        await self._replacer.lower_checkpoint(log, found.end_offset)
        start_offset = min(log.start_offset, found.search.offset)
        # To its end, also if the caller is cancelled: what was stored has to be known.
        if not await outlast(self._checkpoints.lower(log.log_id, found.end_offset, start_offset)):
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full: the log cannot be truncated safely")
        files = log.apply_truncation(found)
        if files is None:
            return  # a segment was added or has expired meanwhile
        if on_cut is not None:
            on_cut()
        try:
            await self._work.run(files.write, lane=LANE)
        finally:
            log.finish_truncation(files)
