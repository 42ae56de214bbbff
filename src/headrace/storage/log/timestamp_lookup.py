"""Find records by time. This may read cold bytes and decompress, so it runs in a thread beside the event loop, and
pauses now and then: Python runs one thread at a time, and a batch may hold millions of records.

The loop meanwhile appends, rolls, deletes and truncates. A lookup therefore works on copies of its own: a tuple of
segments, private indexes, files that it opens itself. If the log was truncated under it, it looks again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import NO_TIMESTAMP
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import reads_log
from headrace.storage.segments.index import OffsetIndex, TimeIndex
from headrace.storage.segments.index_files import BadIndex
from headrace.storage.segments.scan import headers_from
from headrace.storage.segments.segment import Segment
from headrace.wire.batches.compression import decompress
from headrace.wire.batches.examination import SLICE_STEPS
from headrace.wire.batches.header import HEADER_SIZE, CorruptBatch, crc_matches
from headrace.wire.walk import BadRecord, RecordWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.runtime.disk import File
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.wire.batches.header import BatchHeader

INFLATE_MAX = 64 << 20  # a batch that inflates further is answered as a whole
_DELTA_MAX = 2**63 - 1


class FoundRecord(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class TimestampLookup:
    """One question about one log."""

    def __init__(self, log: LogState, segments: LogSegments, pause: Callable[[], None]) -> None:
        self._log = log
        self._segments = segments
        self._pause = pause

    def find(self, timestamp_ms: int) -> FoundRecord | None:
        return self._undisturbed(lambda: self._find(timestamp_ms))

    def newest(self) -> FoundRecord | None:
        return self._undisturbed(self._newest)

    def _undisturbed(self, look: Callable[[], FoundRecord | None]) -> FoundRecord | None:
        """Look until no truncation came between, and no compaction: neither before what was seen nor in the middle."""
        look = reads_log(look)
        while True:
            seen = self._segments.version
            try:
                found = look()
            except DamagedLog:
                if self._is_still(seen):
                    raise
            else:
                if self._is_still(seen):
                    return found

    def _is_still(self, seen: int) -> bool:
        return self._segments.version == seen and seen % 2 == 0

    def _find(self, timestamp_ms: int) -> FoundRecord | None:
        start_offset = self._log.start_offset
        find = partial(_find_in_segment, timestamp_ms=timestamp_ms, start_offset=start_offset, pause=self._pause)
        for segment in tuple(self._segments.segments):
            if segment.max_timestamp is not None and segment.max_timestamp < timestamp_ms:
                continue
            found = self._look(segment, find)
            if found is not None:
                return found
        return None

    def _newest(self) -> FoundRecord | None:
        find = partial(_max_in_segment, start_offset=self._log.start_offset, pause=self._pause)
        best: FoundRecord | None = None
        for segment in tuple(self._segments.segments):
            if segment.max_timestamp is not None and best is not None and segment.max_timestamp <= best.timestamp:
                continue
            found = self._look(segment, find)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
        return best

    def _look(self, segment: Segment, look: Callable[[Segment, File], FoundRecord | None]) -> FoundRecord | None:
        with self._private(segment) as opened:
            if opened is None:
                return None
            try:
                return look(*opened)
            except BadIndex:  # an entry lies that nobody had looked at before
                copy, file = opened
                copy.rebuild_indexes(file, self._log.settings.index_interval_bytes)
                return look(copy, file)

    @contextmanager
    def _private(self, segment: Segment) -> Iterator[tuple[Segment, File] | None]:
        """A copy of the segment that nobody else changes, with both indexes; None if it has just been removed."""
        copy = Segment(self._log.directory, segment.base_offset, segment.size)
        try:
            file = self._segments.disk.open(copy.log_path)
        except FileNotFoundError:
            yield None
            return
        try:
            self._fill_indexes(segment, copy, file)
            yield copy, file
        finally:
            file.close()

    def _fill_indexes(self, segment: Segment, copy: Segment, file: File) -> None:
        index, time_index = segment.index, segment.time_index
        try:
            if index is not None and time_index is not None:
                copy.index, copy.time_index = _snapshot(index, time_index, copy.size)
                copy.indexed_position = copy.index.positions[-1] if len(copy.index) else 0
            else:
                copy.load_index(self._segments.disk)
                copy.load_time_index(self._segments.disk)
            copy.read_newest(file)
        except BadIndex:
            copy.rebuild_indexes(file, self._log.settings.index_interval_bytes)


def _find_in_segment(
    segment: Segment, file: File, timestamp_ms: int, start_offset: int, pause: Callable[[], None]
) -> FoundRecord | None:
    for position, header in _headers_since(segment, file, timestamp_ms):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = _first_in_batch(_Batch(segment, file, position, header), timestamp_ms, start_offset, pause)
            if found is not None:
                return found
    return None


def _headers_since(segment: Segment, file: File, timestamp_ms: int) -> Iterator[tuple[int, BatchHeader]]:
    """Batches from a place before which nothing reaches `timestamp_ms`."""
    assert segment.time_index is not None
    position = 0
    at = bisect_right(segment.time_index.timestamps, timestamp_ms) - 1
    if at >= 0:
        offset = segment.base_offset + segment.time_index.offsets[at]
        found = segment.locate(file, offset)
        if found is None or (found[1].last_offset, found[1].max_timestamp) != (
            offset,
            segment.time_index.timestamps[at],
        ):
            raise BadIndex
        position = found[0]
    return headers_from(file, segment.log_path, position, segment.size)


class _Batch(NamedTuple):
    segment: Segment
    file: File
    position: int
    header: BatchHeader

    def walk(self, pause: Callable[[], None]) -> RecordWalk:
        """Over its records as they were sent. That is no promise that they can be read: a topic may take compressed
        ones unseen."""
        header = self.header
        batch = self.file.read(self.position, header.size)
        if len(batch) < header.size or not crc_matches(memoryview(batch), header):
            raise DamagedLog(
                self.segment.log_path, self.position, header.base_offset, "the batch does not match its CRC"
            )
        records = memoryview(decompress(header.codec, memoryview(batch)[HEADER_SIZE:], inflate_max=INFLATE_MAX))
        return RecordWalk(records, 0, len(records), pause, SLICE_STEPS)


def _first_in_batch(
    batch: _Batch, timestamp_ms: int, start_offset: int, pause: Callable[[], None]
) -> FoundRecord | None:
    header = batch.header
    if not header.record_count:
        return None  # compaction has emptied it
    if header.is_log_append_time:
        return _as_a_whole(header, start_offset)
    since = min(max(timestamp_ms - header.base_timestamp, -_DELTA_MAX), _DELTA_MAX)
    try:
        walk = batch.walk(pause)
        if not walk.find(header.record_count, since, start_offset - header.base_offset):
            return None
    except (CorruptBatch, BadRecord):
        return _as_a_whole(header, start_offset)
    return _found(header, walk)


def _found(header: BatchHeader, walk: RecordWalk) -> FoundRecord:
    time, offset = header.base_timestamp + walk.time_delta, header.base_offset + walk.offset_delta
    return FoundRecord(time, offset, header.leader_epoch)


def _as_a_whole(header: BatchHeader, start_offset: int) -> FoundRecord:
    """The best answer where single records cannot be told apart."""
    return FoundRecord(header.max_timestamp, max(header.base_offset, start_offset), header.leader_epoch)


def _max_in_segment(segment: Segment, file: File, start_offset: int, pause: Callable[[], None]) -> FoundRecord | None:
    """The indexes know the answer, unless the log's start has moved past it."""
    newest = segment.max_timestamp
    assert newest is not None
    if newest == NO_TIMESTAMP:
        return None
    place = segment.locate(file, max(segment.max_timestamp_offset, start_offset))
    if place is not None and place[1].max_timestamp == newest:
        found = _first_in_batch(_Batch(segment, file, *place), newest, start_offset, pause)
        if found is not None:
            return found
    best: FoundRecord | None = None
    for position, header in headers_from(file, segment.log_path, 0, segment.size):
        if header.last_offset >= start_offset and (best is None or header.max_timestamp > best.timestamp):
            candidate = _newest_in_batch(_Batch(segment, file, position, header), start_offset, pause)
            if candidate is not None and (best is None or candidate.timestamp > best.timestamp):
                best = candidate
    return best


def _newest_in_batch(batch: _Batch, start_offset: int, pause: Callable[[], None]) -> FoundRecord | None:
    header = batch.header
    found = _first_in_batch(batch, header.max_timestamp, start_offset, pause)
    if found is not None:
        return found
    # The log starts inside this batch, after its newest record; or the header promises more than the records hold.
    newest: FoundRecord | None = None
    since = -_DELTA_MAX
    try:
        walk = batch.walk(pause)
        while walk.find(header.record_count, since, start_offset - header.base_offset):
            newest = _found(header, walk)
            since = walk.time_delta + 1
            walk.go_on()
    except (CorruptBatch, BadRecord):
        return _as_a_whole(header, start_offset)
    return newest


def _snapshot(index: OffsetIndex, time_index: TimeIndex, size: int) -> tuple[OffsetIndex, TimeIndex]:
    """Copy the indexes of the active segment as far as they speak of its first `size` bytes."""
    offsets, positions = index.offsets, index.positions
    count = min(len(offsets), bisect_left(positions, size))
    copy = OffsetIndex()
    copy.offsets, copy.positions = offsets[:count], positions[:count]
    timestamps, time_offsets = time_index.timestamps, time_index.offsets
    time_copy = TimeIndex()
    limit = copy.offsets[-1] if count else -1
    time_count = min(len(timestamps), bisect_right(time_offsets, limit))
    time_copy.timestamps, time_copy.offsets = timestamps[:time_count], time_offsets[:time_count]
    return copy, time_copy
