"""What a node keeps open and in memory of its segments: two bounded caches, so that the number of partitions is not
limited by the number of file descriptors, and the size of the indexes not by memory.

A file with unsynced bytes stays open until they are synced: a failed write-back is reported to those who hold the file
open, and must not be missed. A leased file stays open too: its `generation` tells slices on their way out of a cut.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.storage.files.disk_errors import NO_DESCRIPTORS, no_descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.disk import Disk, File
    from headrace.storage.segments.segment import Segment

OPEN_FILES = 512  # half of the 1,024 descriptors that many systems allow; the rest is for connections
"""What a node that does not know its limit keeps open."""
INDEX_ENTRIES = 4_000_000  # 32 MB of offset indexes: sixteen full segments of 1 GiB that are being read at once
SEARCHES_SPARED = 64  # a fetch of thousands of partitions must not search the whole cache for each
CLOSED_AT_ONCE = 2  # more than are opened, so that what is too many becomes fewer, and not all of it in one turn


class SegmentCache:
    """Open files and loaded indexes, each in the order of their last use. Belongs to the event loop."""

    def __init__(self, disk: Disk, *, open_files: int = OPEN_FILES, index_entries: int = INDEX_ENTRIES) -> None:
        self.disk = disk
        self._open_files_most = open_files
        self._open_files_wanted = max(1, open_files // 2)
        self._index_entries_max = index_entries
        self._open: OrderedDict[Segment, None] = OrderedDict()
        self._loaded: OrderedDict[Segment, int] = OrderedDict()
        self._index_entries = 0
        self._room_to_read = _SparingSearch(self._close_one)
        self._room_to_tidy = _SparingSearch(self._close_one)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def file(self, segment: Segment, *, create: bool = False) -> File:
        """The segment's open log file."""
        file = segment.file
        if file is not None:
            self._open.move_to_end(segment)
            return file
        self._make_room()
        file = self._open_file(segment.log_path, create=create)
        segment.file = file
        self._open[segment] = None
        return file

    def _open_file(self, path: str, *, create: bool) -> File:
        """Others use descriptors too. If there is none left, one of ours goes."""
        while True:
            try:
                return self.disk.open(path, create=create)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                if not self._close_one() and not self._close_one_at_any_price():
                    raise no_descriptor(path) from error

    def has_room(self, segment: Segment) -> bool:
        """False if the segment's file could be opened only beyond the limit: all the open ones are in use."""
        return segment.file is not None or len(self._open) < self._open_files_most or self._room_to_read.found()

    def close(self, segment: Segment) -> None:
        """Forget a segment. Its file lives on while it is leased."""
        if segment.file is not None:
            segment.file.close()
            segment.file = None
            del self._open[segment]
        self.forget_index(segment)

    def forget_index(self, segment: Segment) -> None:
        """The segment is gone, or active again: its index is no longer ours to unload."""
        self._index_entries -= self._loaded.pop(segment, 0)

    def note_index(self, segment: Segment) -> None:
        """A sealed segment's index is in use. Those that were not for the longest time leave memory."""
        entries = segment.entries_in_memory
        self._index_entries += entries - self._loaded.pop(segment, 0)
        self._loaded[segment] = entries
        while self._index_entries > self._index_entries_max and len(self._loaded) > 1:
            oldest, entries = self._loaded.popitem(last=False)
            self._index_entries -= entries
            oldest.unload_index()

    def _make_room(self) -> None:
        """Above the first limit files are closed that nobody needs. Those that wait for their flush stay: it is under
        way. Only at the second one is it waited for."""
        for _ in range(CLOSED_AT_ONCE):
            if len(self._open) < self._open_files_wanted or not self._room_to_tidy.found():
                break
        if len(self._open) >= self._open_files_most and not self._close_one():
            self._close_one_at_any_price()

    def _close_one_at_any_price(self) -> bool:
        """Every open file is in use or waits for its flush. One sync of the whole file system is far cheaper than one
        of each; it stalls the loop, which is better than to refuse a write."""
        if not any(segment.is_dirty for segment in self._open):
            return False
        try:
            self.disk.sync_everything()
        except OSError as error:
            raise DiskFailure(f"the disk failed to sync: {error}") from error
        for segment in self._open:
            segment.synced_size = segment.size
        return self._close_one()

    def _close_one(self) -> bool:
        for segment in self._open:
            file = segment.file
            assert file is not None
            if not segment.is_dirty and not file.is_leased:
                file.close()
                segment.file = None
                del self._open[segment]
                return True
        return False


class _SparingSearch:
    """Looking for a file to close takes a while if there is none. So a search in vain stands for the next few."""

    __slots__ = ("_search", "_spared_left")

    def __init__(self, search: Callable[[], bool]) -> None:
        self._search = search
        self._spared_left = 0

    def found(self) -> bool:
        if self._spared_left:
            self._spared_left -= 1
            return False
        is_found = self._search()
        self._spared_left = 0 if is_found else SEARCHES_SPARED
        return is_found
