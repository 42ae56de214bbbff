"""Varints by the thousand: read and written with numpy, a column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]
    ByteColumn = tuple[Bytes, NDArray[np.bool_] | None]
    """One byte for each row, and which rows have it; None if all do."""

VARINT_LAST_SHIFT: Final = 28  # the fifth byte of a 32-bit number: four bits are left for it
VARLONG_LAST_SHIFT: Final = 63  # the tenth byte of a 64-bit number: one bit is left

_CODES: Final = np.arange(1 << 16, dtype=np.int64)
_ZIGZAGS: Final = np.where(_CODES & 0x80, _CODES & 0x7F | _CODES >> 1 & 0x3F80, _CODES & 0x7F)
# The value and the width of a varint, by its first two bytes. Most are that short. A width of 0 says: it is longer.
_SHORT_VALUES: Final = (_ZIGZAGS >> 1) ^ -(_ZIGZAGS & 1)
_SHORT_WIDTHS: Final = np.where(_CODES & 0x80, np.where(_CODES & 0x8000, 0, 2), 1)
_ONE_BYTE_VALUES: Final = _SHORT_VALUES[:0x80].copy()


class BadRow(Exception):
    """One record of many cannot be read. `row` is its number; the caller knows in which batch that is."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def read_varints(body: Bytes, positions: Ints, last_shift: int = VARINT_LAST_SHIFT) -> tuple[Ints, Ints]:
    """The varint at each position, and where it ends.

    Positions past the end read the last byte again: what comes of it lies past the end too, and the caller, who checks
    where each record ends, finds out there.
    """
    first = body.take(positions, mode="clip")
    if first.max(initial=0) < 0x80:
        return _ONE_BYTE_VALUES.take(first), positions + 1
    codes = body.take(positions + 1, mode="clip").astype(np.intp)
    codes <<= 8
    codes |= first
    values = _SHORT_VALUES.take(codes)
    widths = _SHORT_WIDTHS.take(codes)
    after = positions + widths
    if not widths.all():
        longer = np.flatnonzero(widths == 0)
        values[longer], after[longer] = _read_long(body, positions[longer], longer, last_shift)
    return values, after


def _read_long(body: Bytes, positions: Ints, rows: Ints, last_shift: int) -> tuple[Ints, Ints]:
    """Varints of any length, byte by byte; each round looks only at those that go on."""
    zigzags = np.zeros(len(positions), dtype=np.uint64)
    after = positions.copy()
    going_on = np.arange(len(positions))
    for shift in range(0, last_shift + 1, 7):
        byte = body.take(after[going_on], mode="clip")
        if shift == last_shift and (too_long := byte >= (1 << (4 if last_shift == VARINT_LAST_SHIFT else 1))).any():
            row = int(rows[going_on[too_long.argmax()]])
            raise BadRow(row, "it holds a number that is longer than its type allows")
        zigzags[going_on] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[going_on] += 1
        going_on = going_on[byte >= 0x80]
        if not going_on.size:
            break
    halves = (zigzags >> np.uint64(1)).view(np.int64)
    return halves ^ -(zigzags & np.uint64(1)).view(np.int64), after


def varint_columns(values: Ints) -> list[ByteColumn]:
    """The bytes of each number as a varint: all first bytes, all second bytes and so on, and which rows have one."""
    rest = ((values << 1) ^ (values >> 63)).view(np.uint64)
    columns: list[ByteColumn] = []
    is_there: NDArray[np.bool_] | None = None
    while True:
        is_more = rest > 0x7F
        octets = (rest & 0x7F).astype(np.uint8)
        octets[is_more] |= 0x80
        columns.append((octets, is_there))
        if not is_more.any():
            return columns
        is_there = None if is_more.all() else is_more
        rest >>= np.uint64(7)


def varint_sizes(values: Ints) -> Ints:
    """How many bytes each number takes as a varint, for numbers of up to 32 bits."""
    zigzags = (values << 1) ^ (values >> 63)
    sizes = np.ones(len(values), dtype=np.int64)
    for shift in (7, 14, 21, 28):
        sizes += zigzags >> shift > 0
    return sizes


def byte_counts(columns: list[ByteColumn], count: int) -> Ints:
    """How many of the bytes each row has."""
    widths = np.full(count, sum(is_there is None for _, is_there in columns), dtype=np.int64)
    for _, is_there in columns:
        if is_there is not None:
            widths += is_there
    return widths


def binary_column(columns: list[ByteColumn]) -> pa.Array:
    """Byte columns as one binary column, row by row, without the bytes that a row does not have."""
    count = len(columns[0][0])
    table = np.empty((count, len(columns)), dtype=np.uint8)
    for index, (octets, _) in enumerate(columns):
        table[:, index] = octets
    edges = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(byte_counts(columns, count), out=edges[1:])
    if any(is_there is not None for _, is_there in columns):
        is_in = np.ones(table.shape, dtype=np.bool_)
        for index, (_, is_there) in enumerate(columns):
            if is_there is not None:
                is_in[:, index] = is_there
        table = table[is_in]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(table)])
