"""What can be checked of a log's segments beside the loop, while the log is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.segments.segment_span import SegmentSpan

if TYPE_CHECKING:
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.segment import Segment


class Spans:
    __slots__ = ("_log", "_segments")

    def __init__(self, log: LogState, segments: LogSegments) -> None:
        self._log = log
        self._segments = segments

    def flushed(self) -> SegmentSpan | None:
        """Of the segment that is written to, what is on the device; None if that is nothing."""
        active = self._segments.active
        if not active.synced_size:
            return None
        end_offset = self._log.flushed_offset if active.is_dirty else self._log.next_offset
        return self._of(active, end_offset, active.synced_size, is_synced=True)

    def since(self, from_offset: int = 0, *, closed_only: bool) -> list[SegmentSpan]:
        """Of the segments that have anything from `from_offset` on."""
        segments = self._segments
        count = len(segments.segments) - closed_only
        return [
            self._of(segment, end_offset, segment.size, is_synced=not segment.is_dirty)
            for number, segment in enumerate(segments.segments[:count])
            if segment.size and (end_offset := segments.end_of(number)) > from_offset
        ]

    def has(self, span: SegmentSpan) -> bool:
        """Whether the segment is still there, and not in another form."""
        segment = self._segments.segments[self._segments.number_of(span.base_offset)]
        return segment is span.segment and segment.size >= span.size

    def _of(self, segment: Segment, end_offset: int, size: int, *, is_synced: bool) -> SegmentSpan:
        may_have_gaps = self._log.may_have_gaps
        return SegmentSpan(segment.log_path, segment.base_offset, end_offset, size, is_synced, may_have_gaps, segment)
