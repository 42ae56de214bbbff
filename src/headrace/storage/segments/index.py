"""The two sparse indexes of a segment, in Kafka's format.

`.index` maps the last offset of a batch (int32, relative to the segment's base) to the batch's position (int32).
`.timeindex` says: up to this offset (int32, relative) no timestamp was larger than this one (int64). Big-endian.

Entries are appended in place, but cutting makes new arrays: a thread that searches an older one is never surprised.
"""

from __future__ import annotations

import sys
from array import array

ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
IS_LITTLE_ENDIAN = sys.byteorder == "little"


class OffsetIndex:
    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("i")
        """Relative offset of the last record of an indexed batch; rises strictly."""
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.positions)  # written second: what it counts is complete

    def add(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def cut(self, count: int) -> None:
        """Keep the first `count` entries."""
        self.offsets = self.offsets[:count]
        self.positions = self.positions[:count]

    def encode(self, first: int = 0) -> bytes:
        """The entries from number `first` on, as they stand in the file."""
        count = len(self) - first
        words = array("i", bytes(ENTRY_BYTES * count))
        words[0::2] = self.offsets[first:]
        words[1::2] = self.positions[first:]
        return _big_endian(words)

    @classmethod
    def decode(cls, raw: bytes) -> OffsetIndex:
        """ValueError if the bytes are not a whole number of entries. Whether they are true is the caller's question."""
        words = _words(raw, ENTRY_BYTES)
        index = cls()
        index.offsets = words[0::2]
        index.positions = words[1::2]
        return index


class TimeIndex:
    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        """Rises strictly."""
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last_timestamp(self) -> int:
        return self.timestamps[-1] if self.timestamps else -1

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Note that nothing so far is later than `timestamp`. An entry that says nothing new is left out."""
        if timestamp > self.last_timestamp:
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def cut(self, count: int) -> None:
        self.timestamps = self.timestamps[:count]
        self.offsets = self.offsets[:count]

    def encode(self, first: int = 0) -> bytes:
        count = len(self) - first
        halves = array("i", self.timestamps[first:].tobytes())
        words = array("i", bytes(TIME_ENTRY_BYTES * count))
        words[0::3] = halves[1::2] if IS_LITTLE_ENDIAN else halves[0::2]
        words[1::3] = halves[0::2] if IS_LITTLE_ENDIAN else halves[1::2]
        words[2::3] = self.offsets[first:]
        return _big_endian(words)

    @classmethod
    def decode(cls, raw: bytes) -> TimeIndex:
        words = _words(raw, TIME_ENTRY_BYTES)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[0::2] = words[1::3] if IS_LITTLE_ENDIAN else words[0::3]
        halves[1::2] = words[0::3] if IS_LITTLE_ENDIAN else words[1::3]
        index = cls()
        index.timestamps = array("q", halves.tobytes())
        index.offsets = words[2::3]
        return index


def _big_endian(words: array[int]) -> bytes:
    if IS_LITTLE_ENDIAN:
        words.byteswap()
    return words.tobytes()


def _words(raw: bytes, entry_bytes: int) -> array[int]:
    if len(raw) % entry_bytes:
        raise ValueError(f"an index holds entries of {entry_bytes} bytes, this one ends with a part of one")
    words = array("i", raw)
    if IS_LITTLE_ENDIAN:
        words.byteswap()
    return words
