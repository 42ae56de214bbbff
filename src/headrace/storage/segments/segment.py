"""One segment of a log: a file of batches, and the two sparse indexes that find a place in it.

The indexes of the active segment live in memory and are appended to their files when the segment is sealed, at
checkpoints and on closing. Those of sealed segments are loaded when somebody reads there. They are only ever a hint:
the batch at an indexed position must carry the indexed offset, or the index is built anew from the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from headrace.model.names import NO_TIMESTAMP
from headrace.runtime.disk import ReadFault
from headrace.storage.files import layout
from headrace.storage.segments.index import ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from headrace.storage.segments.index_files import NO_FILE, BadIndex, save_index
from headrace.storage.segments.scan import header_at, headers_from
from headrace.storage.segments.transaction_index import ABORTED_ENTRY_BYTES, TransactionIndex
from headrace.wire.batches.header import LENGTH_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk, File
    from headrace.wire.batches.header import BatchHeader

RELATIVE_OFFSET_MAX = 2**31 - 1  # index entries hold 32 bits
REBUILD_HOP_BYTES = 64 * 1024  # reading a whole segment: fewer, larger reads


class Segment:
    __slots__ = (
        "aborted",
        "base_offset",
        "file",
        "first_timestamp",
        "index",
        "indexed_position",
        "is_sealed",
        "max_timestamp",
        "max_timestamp_offset",
        "saved_entries",
        "saved_time_entries",
        "size",
        "stem",
        "synced_size",
        "time_index",
        "undated_since_ms",
    )

    def __init__(self, directory: str, base_offset: int, size: int = 0) -> None:
        self.stem = layout.stem(directory, base_offset)
        self.base_offset = base_offset
        self.size = size
        self.synced_size = size
        self.is_sealed = False
        """True once it is not written to any more. Until then both indexes are in memory."""
        self.file: File | None = None
        """Open while `SegmentCache` says so."""
        self.index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        self.indexed_position = 0
        self.saved_entries = NO_FILE
        self.saved_time_entries = NO_FILE
        self.first_timestamp: int = NO_TIMESTAMP
        """Largest timestamp of the first batch: where the segment's time begins."""
        self.max_timestamp: int | None = None
        """None until somebody asks for it, if the segment was not written by this process."""
        self.max_timestamp_offset = base_offset
        """Last offset of the first batch that has the largest timestamp."""
        self.aborted = TransactionIndex(self.stem, base_offset)
        self.undated_since_ms: int | None = None
        """When retention first met this segment without a timestamp in it."""

    @property
    def log_path(self) -> str:
        return self.stem + layout.LOG

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that belongs to the segment."""
        endings = (layout.LOG, layout.INDEX, layout.TIME_INDEX, layout.ABORTED, layout.SNAPSHOT)
        return tuple(self.stem + ending for ending in endings)

    @property
    def index_paths(self) -> tuple[str, str]:
        return self.stem + layout.INDEX, self.stem + layout.TIME_INDEX

    @property
    def is_dirty(self) -> bool:
        return self.size > self.synced_size

    def begin_indexes(self) -> None:
        """Start with empty indexes, for a segment that is empty or about to be noted from its first batch on."""
        self.index = OffsetIndex()
        self.time_index = TimeIndex()
        self.indexed_position = 0
        self.saved_entries = NO_FILE
        self.saved_time_entries = NO_FILE
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def note(self, headers: Sequence[BatchHeader], interval_bytes: int) -> None:
        """These batches were written at the end."""
        position = self.size
        index, time_index, max_timestamp = self.index, self.time_index, self.max_timestamp
        assert index is not None
        assert time_index is not None
        assert max_timestamp is not None
        if position == 0:
            self.first_timestamp = headers[0].max_timestamp
        for header in headers:
            timestamp = header.max_timestamp
            if timestamp > max_timestamp:
                self.max_timestamp = max_timestamp = timestamp
                self.max_timestamp_offset = header.base_offset + header.last_offset_delta
            if position - self.indexed_position > interval_bytes:
                index.add(header.base_offset + header.last_offset_delta - self.base_offset, position)
                time_index.add(max_timestamp, self.max_timestamp_offset - self.base_offset)
                self.indexed_position = position
            position += header.length + LENGTH_OVERHEAD
        self.size = position

    # Finding a place

    def locate(self, file: File, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`; None if all end before."""
        index = self.index
        assert index is not None
        positions = index.positions
        at = bisect_left(index.offsets, offset - self.base_offset, hi=len(positions))
        position = 0
        if at < len(positions):
            header = self._indexed(file, index, at)
            if header.last_offset < offset:
                raise BadIndex
            if header.base_offset <= offset:
                return positions[at], header
        if at > 0:
            before = self._indexed(file, index, at - 1)
            if before.last_offset >= offset:
                raise BadIndex
            position = positions[at - 1] + before.size
        for found, header in headers_from(file, self.log_path, position, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return found, header
        return None

    def boundary_by(self, file: File, start: int, limit: int) -> tuple[int, int]:
        """The end of a run of whole batches from `start`, not past `limit`, and the offset of the batch that follows.

        The last batch that would fit may be left out: an index entry near the limit saves hopping there.
        """
        index = self.index
        assert index is not None
        positions = index.positions
        at = bisect_right(positions, limit) - 1
        if at >= 0 and positions[at] > start:
            return positions[at], self._indexed(file, index, at).base_offset
        end, next_offset = start, -1
        for position, header in headers_from(file, self.log_path, start, self.size):
            if position + header.size > limit:
                return position, header.base_offset
            end, next_offset = position + header.size, header.next_offset
        return end, next_offset

    def _indexed(self, file: File, index: OffsetIndex, at: int) -> BatchHeader:
        header = header_at(file, index.positions[at], self.size)
        if header is None or header.last_offset != self.base_offset + index.offsets[at]:
            raise BadIndex
        return header

    def trust_time_index(self, file: File) -> None:
        """Take the largest timestamp from the last entry of the time index, once the batch it names agrees."""
        self._set_newest(*self._newest_indexed(file))

    def _newest_indexed(self, file: File) -> tuple[int, int]:
        assert self.time_index is not None
        if not len(self.time_index):
            return NO_TIMESTAMP, self.base_offset
        newest, offset = self.time_index.timestamps[-1], self.base_offset + self.time_index.offsets[-1]
        found = self.locate(file, offset)
        if found is None or found[1].last_offset != offset or found[1].max_timestamp != newest:
            raise BadIndex
        return newest, offset

    def _set_newest(self, timestamp: int, offset: int) -> None:
        """Only what is final: lookups in threads pass over a segment whose largest timestamp is too small."""
        self.max_timestamp_offset = offset
        self.max_timestamp = timestamp

    def read_newest(self, file: File) -> int:
        """Find the largest timestamp with the help of both indexes, which are loaded. Return where the segment ends."""
        newest, newest_offset = self._newest_indexed(file)
        next_offset = self.base_offset
        for _, header in headers_from(file, self.log_path, self.indexed_position, self.size):
            if header.max_timestamp > newest:
                newest, newest_offset = header.max_timestamp, header.last_offset
            next_offset = header.next_offset
        self._set_newest(newest, newest_offset)
        return next_offset

    # Index files

    def load_index(self, disk: Disk) -> None:
        """Read `.index`. BadIndex if it cannot be this segment's."""
        try:
            index = OffsetIndex.decode(disk.read_file(self.stem + layout.INDEX))
        except (FileNotFoundError, ReadFault, ValueError) as error:
            raise BadIndex from error
        if len(index) and not 0 < index.positions[-1] < self.size:
            raise BadIndex
        self.index = index
        self.saved_entries = len(index)
        self.indexed_position = index.positions[-1] if len(index) else 0

    def read_last_entry(self, disk: Disk) -> tuple[int, int]:
        """Relative offset and position of the last entry in `.index`, without loading it; (0, 0) if it is empty."""
        try:
            file = disk.open(self.stem + layout.INDEX)
        except (FileNotFoundError, ReadFault) as error:
            raise BadIndex from error
        try:
            size = file.size()
            if size % ENTRY_BYTES:
                raise BadIndex
            last = OffsetIndex.decode(file.read(max(0, size - ENTRY_BYTES), ENTRY_BYTES))
        except ReadFault as error:
            raise BadIndex from error
        finally:
            file.close()
        return (last.offsets[0], last.positions[0]) if len(last) else (0, 0)

    def load_time_index(self, disk: Disk) -> None:
        try:
            time_index = TimeIndex.decode(disk.read_file(self.stem + layout.TIME_INDEX))
        except (FileNotFoundError, ReadFault, ValueError) as error:
            raise BadIndex from error
        self.time_index = time_index
        self.saved_time_entries = len(time_index)

    @property
    def entries_in_memory(self) -> int:
        """What the loaded indexes weigh, counted in entries of the offset index."""
        offsets = 0 if self.index is None else len(self.index)
        aborted = 0 if self.aborted.entries is None else len(self.aborted.entries)
        return offsets + aborted * ABORTED_ENTRY_BYTES // ENTRY_BYTES

    def unload_index(self) -> None:
        """Give the memory back; the segment is sealed and its index saved."""
        self.index = None
        self.aborted.unload()

    def rebuild_indexes(self, file: File, interval_bytes: int, path: str | None = None) -> None:
        """Make both indexes anew from the batches in the log. Until they are complete, nothing of them is seen."""
        made = Segment("", self.base_offset)
        made.begin_indexes()
        for _, header in headers_from(file, path or self.log_path, 0, self.size, REBUILD_HOP_BYTES):
            made.note((header,), interval_bytes)
        self.take_indexes(made)

    def take_indexes(self, made: Segment) -> None:
        """Those that were made anew from the batches; there are no files of them."""
        assert made.max_timestamp is not None
        self.index, self.time_index = made.index, made.time_index
        self.indexed_position = made.indexed_position
        self.saved_entries = self.saved_time_entries = NO_FILE
        self.first_timestamp = made.first_timestamp
        self._set_newest(made.max_timestamp, made.max_timestamp_offset)

    def end_as(self, remade: Segment, end_offset: int) -> None:
        """Its end was cut off, and it is written to again."""
        self.size = remade.size
        self.synced_size = min(self.synced_size, self.size)
        self.is_sealed = False
        self.take_indexes(remade)
        self.aborted.end_as(remade.aborted, end_offset)

    def finish_time_index(self) -> None:
        """The last entry of a time index names the largest timestamp of the whole segment."""
        assert self.time_index is not None
        assert self.max_timestamp is not None
        self.time_index.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def seal(self, disk: Disk) -> None:
        """Nothing more is written here: complete the index files. The time index is needed rarely and leaves memory."""
        self.is_sealed = True
        self.finish_time_index()
        self.save_indexes(disk)
        self.time_index = None

    def save_indexes(self, disk: Disk) -> None:
        """Append to the index files what they lack. A full disk is no trouble here: they can be rebuilt."""
        assert self.index is not None
        assert self.time_index is not None
        if save_index(disk, self.stem + layout.INDEX, self.index, self.saved_entries, ENTRY_BYTES):
            self.saved_entries = len(self.index)
        if save_index(disk, self.stem + layout.TIME_INDEX, self.time_index, self.saved_time_entries, TIME_ENTRY_BYTES):
            self.saved_time_entries = len(self.time_index)

    def cut_indexes(self, offset: int) -> None:
        """Forget entries at or after `offset`; what is left is still true."""
        assert self.index is not None
        assert self.time_index is not None
        relative = offset - self.base_offset
        self.index.cut(bisect_left(self.index.offsets, relative))
        self.time_index.cut(bisect_left(self.time_index.offsets, relative))
        self.indexed_position = self.index.positions[-1] if len(self.index) else 0
        if len(self.index) < self.saved_entries:
            self.saved_entries = NO_FILE  # what is in the file is too much: it has to be written anew
        if len(self.time_index) < self.saved_time_entries:
            self.saved_time_entries = NO_FILE
