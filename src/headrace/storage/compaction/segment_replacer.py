"""Cleaned segments replace others in logs that are in use, and that may be truncated or closed meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.model.errors import Refusal
from headrace.runtime.tasks import outlast
from headrace.storage.files.cleaner_checkpoint import NOTHING_CLEAN, store_cleaner_checkpoint
from headrace.storage.segments import replacement

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.names import LogId
    from headrace.storage.files.cleaner_checkpoint import CleanerCheckpoint
    from headrace.storage.files.disk_work import DiskWork
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.segments.replacement import CleanedRun

STEP: Final = "put compacted records in place"  # what a full disk did not let us do


class SegmentReplacer:
    def __init__(self, work: DiskWork) -> None:
        self._work = work
        self.rewriting = asyncio.Lock()
        """Held while a log's files change under it: no cut may come between the steps of a replacement."""
        self._unsettled: dict[LogId, Callable[[], None]] = {}
        """The rest of a replacement that a full disk did not let end. Until it does, a start would do it again."""

    # ---- for the cleaner

    async def replace(self, log: PartitionLog, cleaned: CleanedRun, cuts: int) -> bool:
        """Put cleaned segments in place; `cuts` tells how often the log had been truncated before it was read.

        False if the log has changed meanwhile, and what was cleaned was thrown away instead.
        """
        async with self.rewriting:
            # To its end, also if the caller is cancelled: a promise that nobody remembers is kept by the next start.
            return await outlast(self._replace(log, cleaned, cuts))

    async def _replace(self, log: PartitionLog, cleaned: CleanedRun, cuts: int) -> bool:
        disk, directory = self._work.disk, log.directory
        discard = partial(replacement.discard, disk, directory, cleaned)
        if log.is_closed:
            return False  # and its directory is gone
        is_wanted = log.cuts == cuts and log.compaction.can_replace(cleaned)
        if is_wanted:
            if log.cleaner_checkpoint is None:
                await self._store_checkpoint(log, NOTHING_CLEAN)
            try:
                await self._work.change(partial(replacement.promise, disk, directory, cleaned), STEP)
            except Refusal:
                await self._end(log, discard)  # the cleaned files take up room
                raise
            is_wanted = log.compaction.can_replace(cleaned)
        if not is_wanted:
            await self._end(log, discard)
            return False
        log.compaction.replace(cleaned)
        await self._end(log, partial(replacement.conclude, disk, directory, cleaned))
        return True

    async def settle(self, log: PartitionLog) -> None:
        """End what a full disk has left of a replacement, before anything is written beside the log that a start could
        take for a part of it. Refusal while there is still no room."""
        async with self.rewriting:
            await self.settle_held(log)

    async def remove_unused(self, log: PartitionLog) -> None:
        """Remove what a pass wrote that came to nothing. The rest of a replacement, if any, has to end first."""
        async with self.rewriting:
            if not log.is_closed and log.log_id not in self._unsettled:
                await self._work.change(partial(replacement.remove_unused, self._work.disk, log.directory), STEP)

    async def note_clean(self, log: PartitionLog, checkpoint: CleanerCheckpoint, cuts: int) -> None:
        """The log is clean as far as that; `cuts` tells how often it had been truncated when that was found."""
        async with self.rewriting:
            if not log.is_closed and log.cuts == cuts:
                await self._store_checkpoint(log, checkpoint)

    # ---- for who copies a log that was compacted elsewhere

    async def expect_gaps(self, log: PartitionLog) -> None:
        """Offsets are missing in what follows: say so beside the log, once, before it is written."""
        async with self.rewriting:
            if not log.is_closed and log.cleaner_checkpoint is None:
                await self._store_checkpoint(log, NOTHING_CLEAN, "mark a log as the copy of a compacted one")

    # ---- for whoever changes a log in other ways, and holds `rewriting`

    async def settle_held(self, log: PartitionLog) -> None:
        """As `settle`."""
        if (rest := self._unsettled.get(log.log_id)) is not None:
            await self._end(log, rest)

    async def lower_checkpoint(self, log: PartitionLog, end_offset: int) -> None:
        """The log is about to be cut there: what is written later is not clean."""
        if log.cleaner_checkpoint is not None and log.cleaner_checkpoint.clean_end_offset > end_offset:
            await self._store_checkpoint(log, log.cleaner_checkpoint._replace(clean_end_offset=end_offset))

    def forget(self, log_id: LogId) -> None:
        """The log goes, with all that lies beside it."""
        self._unsettled.pop(log_id, None)

    # ----

    async def _end(self, log: PartitionLog, rest: Callable[[], None]) -> None:
        self._unsettled[log.log_id] = rest
        await self._work.change(rest, STEP)
        self._unsettled.pop(log.log_id, None)

    async def _store_checkpoint(self, log: PartitionLog, checkpoint: CleanerCheckpoint, what: str = STEP) -> None:
        await self._work.change(partial(store_cleaner_checkpoint, self._work.disk, log.directory, checkpoint), what)
        log.cleaner_checkpoint = checkpoint
