"""Compaction of a log that is in use: which segments can be cleaned, and how cleaned ones replace them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.storage.files.read_faults import reads_log
from headrace.storage.segments.replacement import take_place
from headrace.storage.segments.scan import header_at
from headrace.storage.segments.segment import Segment
from headrace.storage.segments.segment_span import SealedSegment

if TYPE_CHECKING:
    from headrace.storage.files.damage import KnownDamage
    from headrace.storage.log.batch_positions import BatchPositions
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.replacement import CleanedRun
    from headrace.storage.segments.segment_cache import SegmentCache


class LogCompaction:
    __slots__ = ("_cache", "_damage", "_log", "_positions", "_segments")

    def __init__(
        self,
        log: LogState,
        segments: LogSegments,
        positions: BatchPositions,
        cache: SegmentCache,
        damage: KnownDamage,
    ) -> None:
        self._log = log
        self._segments = segments
        self._positions = positions
        self._cache = cache
        self._damage = damage

    @reads_log
    def sealed_segments(self, *, times_from: int | None = None) -> list[SealedSegment]:
        """Those that can be cleaned. Those that end after `times_from` come with their times, which may take a read."""
        sealed = []
        for number, segment in enumerate(self._segments.segments[:-1]):
            oldest_ms = newest_ms = -1
            end_offset = self._segments.end_of(number)
            if times_from is not None and end_offset > times_from:
                newest_ms = self._positions.newest_timestamp(segment)
                if segment.first_timestamp < 0:
                    first = header_at(self._cache.file(segment), 0, segment.size)
                    segment.first_timestamp = -1 if first is None else first.max_timestamp
                oldest_ms = segment.first_timestamp
            sealed.append(SealedSegment(segment.base_offset, end_offset, segment.size, oldest_ms, newest_ms))
        return sealed

    @property
    def active_since_ms(self) -> int:
        """The time of the first batch that can only be compacted after a roll; -1 if there is none."""
        active = self._segments.active
        return active.first_timestamp if active.size else -1

    def can_replace(self, cleaned: CleanedRun) -> bool:
        """False if not all that they were made from is here any more, or the log is known to be damaged."""
        segments = self._segments
        number = segments.number_of(cleaned.base_offset)
        last = number + cleaned.source_count - 1
        return (
            not self._log.is_closed
            and not self._damage
            and last < len(segments.segments) - 1
            and segments.segments[number].base_offset == cleaned.base_offset
            and segments.end_of(last) == cleaned.end_offset
        )

    def replace(self, cleaned: CleanedRun) -> None:
        """Put cleaned segments in place of those that they were made from: on disk and in memory, in one turn."""
        assert self.can_replace(cleaned), "cleaned segments would replace others than they were made from"
        directory, segments = self._log.directory, self._segments
        with segments.changing():
            try:
                take_place(segments.disk, directory, cleaned)
            except OSError as error:
                raise DiskFailure(f"the disk refused to put {directory}/{cleaned} in place: {error}") from error
            fresh = [Segment(directory, base_offset, size) for base_offset, size in cleaned.segments]
            for segment in fresh:
                segment.is_sealed = True
            segments.replace(segments.number_of(cleaned.base_offset), cleaned.source_count, fresh)
        self._positions.forget()
