"""Aborted transactions of a segment: what readers of committed records must leave out. In Kafka's `.txnindex` format.

An entry has 34 bytes: version (int16, 0), producer id, first offset, offset of the abort marker, and the last stable
offset at that moment, exclusive (int64 each). It stands in the segment that holds the marker; the transaction itself
may have begun in an earlier one.

Other indexes are hints. This one is not: a reader who misses an entry takes aborted records for committed ones. So a
recovery point never passes an abort whose entry is not in its file, and below the recovery point no file means none.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.model.errors import DiskFailure
from headrace.runtime.disk import ReadFault
from headrace.storage.files import layout
from headrace.storage.files.disk_errors import NO_SPACE
from headrace.storage.segments.index_files import NO_FILE, BadIndex, cut_file, extend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ABORTED_ENTRY_BYTES: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's own."""
    last_stable_offset: int


class AbortedIndex:
    """In memory as it is in the file: only what a search looks at is unpacked. Entries rise in `last_offset`."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes = b"") -> None:
        """ValueError if the bytes are not a whole number of entries in good order."""
        if len(packed) % ABORTED_ENTRY_BYTES:
            raise ValueError(f"entries have {ABORTED_ENTRY_BYTES} bytes, this index ends with a part of one")
        last_offset = -1
        for version, _, first_offset, marker_offset, _ in _ENTRY.iter_unpack(packed):
            if version != VERSION or not 0 <= first_offset < marker_offset or marker_offset <= last_offset:
                raise ValueError(f"an entry of version {version} with marker {marker_offset} after {last_offset}")
            last_offset = marker_offset
        self._packed = bytearray(packed)

    def __len__(self) -> int:
        return len(self._packed) // ABORTED_ENTRY_BYTES

    def __getitem__(self, number: int) -> AbortedTransaction:
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(number)
        return AbortedTransaction._make(_ENTRY.unpack_from(self._packed, number * ABORTED_ENTRY_BYTES)[1:])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return (self[number] for number in range(len(self)))

    def add(self, ended: EndedTransaction) -> None:
        self._packed += _ENTRY.pack(
            VERSION, ended.producer_id, ended.first_offset, ended.marker_offset, ended.last_stable_offset
        )

    def encode(self, first: int = 0) -> bytes:
        """The entries from number `first` on, as they stand in the file."""
        return bytes(self._packed[first * ABORTED_ENTRY_BYTES :])

    def cut(self, end_offset: int) -> None:
        """Forget markers at or after `end_offset`."""
        del self._packed[self._number_of(end_offset) * ABORTED_ENTRY_BYTES :]

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with records from `first_offset` on and below `end_offset`; and if later segments may know more."""
        found = []
        for number in range(self._number_of(first_offset), len(self)):
            aborted = self[number]
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found, False  # whatever is aborted later began after the range
        return found, True

    def _number_of(self, offset: int) -> int:
        """The first entry whose marker is at or after `offset`."""
        return bisect_left(range(len(self)), offset, key=lambda number: self[number].last_offset)


class TransactionIndex:
    """One segment's: in memory, or in its file only."""

    __slots__ = ("_base_offset", "_stem", "entries", "saved")

    def __init__(self, stem: str, base_offset: int) -> None:
        """`stem`: the path of the segment's files, without their ending."""
        self.entries: AbortedIndex | None = AbortedIndex()
        """None while it is in its file only."""
        self.saved = 0
        """How many of the entries are in the file; NO_FILE if what is there is wrong."""
        self._stem = stem
        self._base_offset = base_offset

    @property
    def path(self) -> str:
        return self._stem + layout.ABORTED

    def load(self, disk: Disk) -> AbortedIndex:
        """Read `.txnindex`, if it is not in memory. BadIndex if it cannot be this segment's."""
        if self.entries is None:
            try:
                entries = AbortedIndex(disk.read_file(self.path))
            except (FileNotFoundError, ReadFault, ValueError) as error:
                raise BadIndex from error
            if len(entries) and entries[0].last_offset < self._base_offset:
                raise BadIndex
            self.entries, self.saved = entries, len(entries)
        return self.entries

    def unload(self) -> None:
        """Give the memory back, if everything is saved."""
        if self.entries is not None and 0 < len(self.entries) == self.saved:
            self.entries = None

    def forget(self) -> AbortedIndex:
        """What is in the file is wrong: an empty index to fill anew, of which the file has nothing."""
        self.entries, self.saved = AbortedIndex(), NO_FILE
        return self.entries

    @property
    def has_unsaved(self) -> bool:
        return self.entries is not None and len(self.entries) != self.saved

    @property
    def has_wrong_file(self) -> bool:
        """Then nothing can be appended to it: it has to be written anew as a whole, see `SideFile`."""
        return self.entries is not None and self.saved == NO_FILE

    def save(self, disk: Disk) -> bool:
        """Append to the file what it lacks. False if the file is wrong, or the disk is full: what it held stands."""
        if not self.has_unsaved:
            return True
        if self.has_wrong_file:
            return False
        assert self.entries is not None
        try:
            extend(disk, self.path, self.saved * ABORTED_ENTRY_BYTES, self.entries.encode(self.saved))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise DiskFailure(f"the disk refused to write {self.path}: {error}") from error
            return False
        self.saved = len(self.entries)
        return True

    def cut(self, disk: Disk, end_offset: int) -> None:
        """Forget markers at or after `end_offset`, in the file too; the index is loaded."""
        assert self.entries is not None
        self.entries.cut(end_offset)
        if self.drop_saved():
            cut_file(disk, self.path, self.saved * ABORTED_ENTRY_BYTES)

    def drop_saved(self) -> bool:
        """After a cut: whether the file holds more than the index, and is to be cut as well."""
        assert self.entries is not None
        is_too_long = len(self.entries) < self.saved
        if is_too_long:
            self.saved = len(self.entries)
        return is_too_long

    def end_as(self, remade: TransactionIndex, end_offset: int) -> None:
        """The end of its segment was cut off."""
        if self.entries is None:  # otherwise ours is newer: a checkpoint may have written more of it meanwhile
            is_wrong = remade.saved == NO_FILE
            self.entries = remade.entries
            self.saved = NO_FILE if is_wrong else max(self.saved, remade.saved)
        assert self.entries is not None
        self.entries.cut(end_offset)
