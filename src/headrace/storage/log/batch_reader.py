"""Whole batches out of a log, as slices of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.disk import FileSlice, ReadFault
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import damage_by, reads_log
from headrace.storage.segments.scan import header_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.disk import File
    from headrace.storage.files.damage import KnownDamage
    from headrace.storage.log.batch_positions import BatchPositions
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache


class BatchReader:
    __slots__ = ("_cache", "_damage", "_log", "_positions", "_segments", "on_damage")

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
        self.on_damage: Callable[[DamagedLog], None] | None = None
        """Hears of what is found after it was handed out: bytes on their way to a socket. What is found before is
        raised."""

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> tuple[FileSlice, int] | None:
        """As `PartitionLog.read`, and the offset where what was read ends (exclusive)."""
        try:  # as `reads_log` does, without a call more for each read
            log = self._log
            if not log.start_offset <= offset <= log.next_offset:
                raise Refusal(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the log has offsets {log.start_offset} to {log.next_offset}, not {offset}",
                )
            if offset >= end_offset:
                return None
            if self._damage:
                end_offset = self._end_before_damage(offset, end_offset)
            log_segments, positions = self._segments, self._positions
            segments = log_segments.segments
            number = log_segments.number_of(offset)
            segment = segments[number]
            if not at_least_one and not self._cache.has_room(segment):
                return None
            start = positions.position_of(segment, offset)
            while start == segment.size and number + 1 < len(segments):  # a gap: go on with the next batch there is
                number += 1
                segment, start = segments[number], 0
            segment_end = log_segments.end_of(number)
            limit = segment.size if end_offset >= segment_end else positions.position_of(segment, end_offset)
            if limit <= start:
                return None
            file = self._cache.file(segment)
            if limit - start <= max_bytes:
                next_offset = min(end_offset, segment_end)
                positions.remember(next_offset, segment, limit)
                return self._slice(file, start, limit), next_offset
            return self._read_part(segment, start, max_bytes, at_least_one=at_least_one)
        except ReadFault as fault:
            raise damage_by(fault) from fault

    def _end_before_damage(self, offset: int, end_offset: int) -> int:
        """Where a read from `offset` has to end. DamagedLog if it would begin with bytes that are known to be bad."""
        found = self._damage.next_from(offset)
        if found is None or found.first_offset >= end_offset:
            return end_offset
        if found.first_offset <= offset:
            raise DamagedLog(found.path, found.position, found.first_offset, found.problem)
        # No header there can be trusted to tell where the whole batches end.
        segment = self._segments.segments[self._segments.number_of(found.first_offset)]
        self._positions.remember(found.first_offset, segment, found.position)
        return found.first_offset

    def _read_part(
        self, segment: Segment, start: int, max_bytes: int, *, at_least_one: bool
    ) -> tuple[FileSlice, int] | None:
        """As many of the batches from `start` as fit; there are more of them than do."""
        end, next_offset = self._positions.boundary_by(segment, start, start + max_bytes)
        file = self._cache.file(segment)
        if end == start:
            if not at_least_one:
                return None
            first = header_at(file, start, segment.size)
            assert first is not None, "the batch was there a moment ago"
            end, next_offset = start + first.size, first.next_offset
        self._positions.remember(next_offset, segment, end)
        return self._slice(file, start, end), next_offset

    def _slice(self, file: File, start: int, end: int) -> FileSlice:
        return FileSlice(file, start, end - start, self._unreadable)

    def _unreadable(self, fault: ReadFault) -> None:
        """A slice could not be sent, or not be warmed for it."""
        if self.on_damage is not None:
            self.on_damage(damage_by(fault))

    @reads_log
    def first_batch_offset(self) -> int:
        """Where the batch begins that holds the log's start: records go one by one, bytes by the batch."""
        start_offset = self._log.start_offset
        segment = self._segments.segments[self._segments.number_of(start_offset)]
        position = self._positions.position_of(segment, start_offset)
        first = header_at(self._cache.file(segment), position, segment.size) if position < segment.size else None
        return start_offset if first is None else min(first.base_offset, start_offset)
