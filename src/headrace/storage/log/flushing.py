"""What of a log is not yet on the device, and how it gets there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.storage.files import layout

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, File
    from headrace.storage.log.batch_positions import BatchPositions
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache


@dataclass(frozen=True, slots=True)
class FlushTicket:
    """One log's part in a flush. Taken on the loop by `Flushing.begin`, synced in a thread, given back on the loop to
    `Flushing.finish`."""

    files: tuple[tuple[Segment, File, int], ...]
    """Each with the size that the sync will cover. Leased, so that none is closed under the thread."""
    directories: tuple[str, ...]
    target_offset: int
    cuts: int
    """How often the log had been truncated. A truncation since then makes the ticket worthless."""

    @property
    def sync_count(self) -> int:
        return len(self.files) + len(self.directories)

    def sync(self, disk: Disk) -> None:
        """Blocking. Bytes before names: an entry in a directory never promises bytes that are not there."""
        for _, file, _ in self.files:
            file.sync()
        for directory in self.directories:
            with suppress(FileNotFoundError):  # the log was deleted meanwhile
                disk.sync_directory(directory)


class Flushing:
    __slots__ = ("_cache", "_directories", "_log", "_positions", "_sealed", "_segments")

    def __init__(self, log: LogState, segments: LogSegments, positions: BatchPositions, cache: SegmentCache) -> None:
        self._log = log
        self._segments = segments
        self._positions = positions
        self._cache = cache
        # Creating or opening the log may have changed what is in there.
        self._directories: tuple[str, ...] = (log.directory, layout.TOPICS, "")
        self._sealed = [segment for segment in segments.segments[:-1] if segment.is_dirty]
        """Sealed segments with bytes that are not yet flushed. Some may be gone meanwhile, or active again."""

    @property
    def is_dirty(self) -> bool:
        """True if a power cut could take something away, or bring something back."""
        return self._log.flushed_offset < self._log.next_offset or bool(self._directories)

    @property
    def flushed_end(self) -> int:
        """Where that ends (exclusive) which is on the device; 0 if nothing is."""
        segments = self._segments
        return self._log.flushed_offset if segments.active.synced_size else segments.closed_end

    def note_directory(self) -> None:
        """A file was made or removed."""
        self._directories = self._directories or (self._log.directory,)

    def note_sealed(self, segment: Segment) -> None:
        if segment.is_dirty and segment not in self._sealed:
            self._sealed.append(segment)

    def begin(self) -> FlushTicket | None:
        """What has to be synced so that everything written so far is safe; None if it already is."""
        log, active = self._log, self._segments.active
        if not self.is_dirty or log.is_closed:
            return None
        if self._sealed:
            sealed = self._segments.segments[:-1]
            self._sealed = [segment for segment in self._sealed if segment in sealed]
        files = []
        for segment in (*self._sealed, active):
            if segment.is_dirty:
                file = self._cache.file(segment)
                file.lease()
                files.append((segment, file, segment.size))
        self._positions.remember(log.next_offset, active, active.size)
        ticket = FlushTicket(tuple(files), self._directories, log.next_offset, log.cuts)
        self._directories = ()
        return ticket

    def finish(self, ticket: FlushTicket) -> None:
        """The ticket's syncs have succeeded."""
        log = self._log
        for segment, file, size in ticket.files:
            file.release()
            if ticket.cuts == log.cuts:
                segment.synced_size = max(segment.synced_size, size)
        if ticket.cuts != log.cuts:
            return
        self._sealed = [segment for segment in self._sealed if segment.is_dirty]
        log.flushed_offset = max(log.flushed_offset, ticket.target_offset)
