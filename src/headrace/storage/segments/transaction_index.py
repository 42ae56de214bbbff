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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.replication.open_transactions import EndedTransaction

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
