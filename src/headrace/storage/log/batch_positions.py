"""Where in its segments a log's batches begin: found by index, remembered for those who read on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.segments.index_files import BadIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.wire.batches.header import BatchHeader

REMEMBERED_MAX = 64  # boundaries that readers will ask for next: the ends of reads and of flushes


class BatchPositions:
    """One log's. An index that is missing or lies is rebuilt on the way, so that callers never notice; or by somebody
    else, who hears of it, and until then callers hear that it is not yet there."""

    __slots__ = ("_cache", "_interval_bytes", "_remembered", "on_lost")

    def __init__(self, cache: SegmentCache, interval_bytes: int) -> None:
        self._cache = cache
        self._interval_bytes = interval_bytes
        self._remembered: dict[int, tuple[Segment, int]] = {}
        self.on_lost: Callable[[Segment], None] | None = None
        """Hears of a lost index, and raises NotYet."""

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """The batch with `offset`, or else the next one, begins at `position`."""
        remembered = self._remembered
        if len(remembered) >= REMEMBERED_MAX:
            del remembered[next(iter(remembered))]
        remembered[offset] = (segment, position)

    def forget(self) -> None:
        """Something was cut off: what was known may be wrong."""
        self._remembered.clear()

    def position_of(self, segment: Segment, offset: int) -> int:
        """Where the batch that contains `offset`, or else the next one, begins; the segment's size if it has none."""
        if offset <= segment.base_offset:
            return 0
        known = self._remembered.get(offset)
        if known is not None and known[0] is segment:
            return known[1]
        found = self.locate(segment, offset)
        return segment.size if found is None else found[0]

    def locate(self, segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`; None if all end before."""
        self._load_index(segment)
        file = self._cache.file(segment)
        try:
            return segment.locate(file, offset)
        except BadIndex:
            self._rebuild(segment)
            return segment.locate(file, offset)

    def boundary_by(self, segment: Segment, start: int, limit: int) -> tuple[int, int]:
        """The end of a run of whole batches from `start`, not past `limit`, and the offset of what follows."""
        self._load_index(segment)
        file = self._cache.file(segment)
        try:
            return segment.boundary_by(file, start, limit)
        except BadIndex:
            self._rebuild(segment)
            return segment.boundary_by(file, start, limit)

    def newest_timestamp(self, segment: Segment) -> int:
        """The largest timestamp in the segment, -1 if none of its records has one."""
        if segment.max_timestamp is None:
            self._load_index(segment)
            try:
                segment.load_time_index(self._cache.disk)
                segment.read_newest(self._cache.file(segment))
                segment.time_index = None
            except BadIndex:
                self._rebuild(segment)
        assert segment.max_timestamp is not None
        return segment.max_timestamp

    def _load_index(self, segment: Segment) -> None:
        if not segment.is_sealed:
            return
        if segment.index is None:
            try:
                segment.load_index(self._cache.disk)
            except BadIndex:
                self._rebuild(segment)
        self._cache.note_index(segment)

    def _rebuild(self, segment: Segment) -> None:
        """The log is the truth."""
        if self.on_lost is not None and segment.is_sealed:
            self.on_lost(segment)
        segment.rebuild_indexes(self._cache.file(segment), self._interval_bytes)
        if segment.is_sealed:
            segment.seal(self._cache.disk)
