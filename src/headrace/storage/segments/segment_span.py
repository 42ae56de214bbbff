"""What is told of a segment to those who work on it beside the loop: the scrub and compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.storage.segments.segment import Segment


class SegmentSpan(NamedTuple):
    """As much of a segment as there was when somebody asked."""

    path: str
    base_offset: int
    end_offset: int
    """Exclusive."""
    size: int
    is_synced: bool
    may_have_gaps: bool
    segment: Segment
    """For its log to know it by: after a compaction another one has the same path."""


class SealedSegment(NamedTuple):
    base_offset: int
    end_offset: int
    size: int
    oldest_ms: int
    """The time of its first batch; -1 if it has none."""
    newest_ms: int
