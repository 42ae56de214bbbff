"""When a log goes on in a new segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.segments.index import ENTRY_BYTES, TIME_ENTRY_BYTES
from headrace.storage.segments.segment import RELATIVE_OFFSET_MAX
from headrace.storage.segments.transaction_index import ABORTED_ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.storage.segments.segment import Segment
    from headrace.storage.settings import LogSettings
    from headrace.wire.batches.header import BatchHeader


def fits(segment: Segment, settings: LogSettings, size: int, newest_timestamp: int, last_offset: int) -> bool:
    """True if batches of these bounds surely belong into the segment. The quick question, asked for every append."""
    return (
        segment.size + size <= settings.segment_bytes
        and last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
        and not (segment.first_timestamp >= 0 and newest_timestamp - segment.first_timestamp > settings.segment_ms)
        and not is_index_full(segment, settings)
    )


def is_index_full(segment: Segment, settings: LogSettings) -> bool:
    assert segment.index is not None
    assert segment.time_index is not None
    assert segment.aborted.entries is not None
    return (
        len(segment.index) >= settings.segment_index_bytes // ENTRY_BYTES
        # One place is kept for the entry that ends every time index.
        or len(segment.time_index) >= settings.segment_index_bytes // TIME_ENTRY_BYTES - 1
        or len(segment.aborted.entries) >= settings.segment_index_bytes // ABORTED_ENTRY_BYTES
    )


def base_for(first: BatchHeader, next_offset: int) -> int:
    """Where a segment begins that has this first batch, in a log that ends at `next_offset`: they join without a gap,
    unless one is too wide for the index. So a start can tell what compaction left out from what a crash took."""
    return first.base_offset if is_too_wide(first, next_offset) else next_offset


def is_too_wide(first: BatchHeader, next_offset: int) -> bool:
    return first.last_offset - next_offset > RELATIVE_OFFSET_MAX


def split(headers: Sequence[BatchHeader], active: Segment, settings: LogSettings, next_offset: int) -> list[int]:
    """Where new segments begin: each number is that of the first batch that goes into another one."""
    starts: list[int] = []
    size, base_offset, first_timestamp = active.size, active.base_offset, active.first_timestamp
    is_full = size > 0 and is_index_full(active, settings)
    for number, header in enumerate(headers):
        is_over = size > 0 and (
            size + header.size > settings.segment_bytes
            or (first_timestamp >= 0 and header.max_timestamp - first_timestamp > settings.segment_ms)
        )
        if is_full or is_over or header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
            starts.append(number)
            size, base_offset, is_full = 0, base_for(header, next_offset), False
        if size == 0:
            first_timestamp = header.max_timestamp
        size += header.size
        next_offset = header.next_offset
    return starts
