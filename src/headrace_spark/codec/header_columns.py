"""The headers of many records as one Arrow column of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.wire.batches.varints import read_varint
from headrace_spark.codec.columns import HEADERS_TYPE
from headrace_spark.codec.fields import refuse_where
from headrace_spark.codec.slices import bitmap, gather
from headrace_spark.codec.varint_arrays import BadRow, read_varints

if TYPE_CHECKING:
    from headrace_spark.codec.fields import Fields
    from headrace_spark.codec.varint_arrays import Bytes, Ints

ROWS_AT_ONCE_MIN: Final = 16  # for fewer records than this numpy takes longer than a loop


def header_column(body: Bytes, fields: Fields, first_row: int) -> pa.Array:
    """A list for each record; null where there are no headers, as the official connector has it.

    `first_row` is what the first of these records is among those that were opened with it, for error messages.
    """
    counts = fields.header_counts
    if not counts.any():
        return pa.nulls(len(counts), HEADERS_TYPE)
    first_slots = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=first_slots[1:])
    found = _HeaderPositions(int(first_slots[-1]))
    try:
        found.read(body, fields, first_slots)
    except BadRow as bad:
        raise BadRow(first_row + bad.row, bad.reason) from bad
    keys = _as_text(gather(body, found.key_starts, found.key_sizes))
    values = gather(body, found.value_starts, found.value_sizes)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    is_there = counts > 0
    buffers = [bitmap(is_there), pa.py_buffer(first_slots.astype(np.int32))]
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), buffers, children=[pairs])


class _HeaderPositions:
    """Where each header lies, in the order of the records: slot by slot."""

    def __init__(self, count: int) -> None:
        self.key_starts = np.empty(count, dtype=np.int64)
        self.key_sizes = np.empty(count, dtype=np.int64)
        self.value_starts = np.empty(count, dtype=np.int64)
        self.value_sizes = np.empty(count, dtype=np.int64)

    def read(self, body: Bytes, fields: Fields, first_slots: Ints) -> None:
        """The first header of every record, then the second of every record that has one, and so on."""
        here = fields.header_starts.copy()
        rows = np.flatnonzero(fields.header_counts)
        turn = 0
        while len(rows) >= ROWS_AT_ONCE_MIN:
            here[rows] = self._read_turn(body, here[rows], first_slots[rows] + turn, fields.ends[rows], rows)
            turn += 1
            rows = rows[fields.header_counts[rows] > turn]
        for row in rows.tolist():
            slots = range(int(first_slots[row]) + turn, int(first_slots[row + 1]))
            here[row] = self._read_record(body, int(here[row]), slots, int(fields.ends[row]), row)
        refuse_where(
            here != np.where(fields.header_counts, fields.ends, here), "its headers do not fill just its length"
        )

    def _read_turn(self, body: Bytes, here: Ints, slots: Ints, ends: Ints, rows: Ints) -> Ints:
        key_sizes, key_starts = read_varints(body, here)
        value_sizes, value_starts = read_varints(body, key_starts + np.maximum(key_sizes, 0))
        after = value_starts + np.maximum(value_sizes, 0)
        is_bad = (key_sizes < 0) | (value_sizes < -1) | (after > ends)
        if is_bad.any():
            raise BadRow(int(rows[is_bad.argmax()]), "one of its headers has no key or an impossible length")
        self.key_starts[slots], self.key_sizes[slots] = key_starts, key_sizes
        self.value_starts[slots], self.value_sizes[slots] = value_starts, value_sizes
        return after

    def _read_record(self, body: Bytes, here: int, slots: range, end: int, row: int) -> int:
        plain = body.data
        for slot in slots:
            try:
                key_size, key_start = read_varint(plain, here)
                value_size, value_start = read_varint(plain, key_start + max(key_size, 0))
            except (IndexError, ValueError) as damage:
                raise BadRow(row, "one of its headers runs past its end") from damage
            here = value_start + max(value_size, 0)
            if key_size < 0 or value_size < -1 or here > end:
                raise BadRow(row, "one of its headers has no key or an impossible length")
            self.key_starts[slot], self.key_sizes[slot] = key_start, key_size
            self.value_starts[slot], self.value_sizes[slot] = value_start, value_size
        return here


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys are text by convention only. What is not is shown as Java shows it, with U+FFFD in its place."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
