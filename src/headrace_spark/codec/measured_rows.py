"""Rows on their way out: their columns as bytes, and how large each row will be as a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.wire.batches.header import HEADER_SIZE
from headrace_spark.codec.varint_arrays import binary_column, varint_columns, varint_sizes

if TYPE_CHECKING:
    from headrace_spark.codec.varint_arrays import Ints

COLUMNS: Final = ("key", "value", "headers", "timestamp")
ROWS_PER_BATCH_MAX: Final = 1 << 20  # offset deltas below this take three bytes at most
OFFSET_DELTA_BYTES_MAX: Final = 3
RECORD_BYTES_MAX: Final = 2**31 - 1 - HEADER_SIZE  # what the length of a batch, 31 bits, leaves for one record
TICKS_PER_MILLI: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}
NOTHING: Final = pa.scalar(b"", pa.binary())  # what Arrow is told to put between the elements that it joins


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """What is to be encoded, with everything known about it that does not depend on how it is cut into batches."""

    keys: pa.Array | None  # None if every key is null
    values: pa.Array | None
    headers: pa.Array | None  # each row's headers as bytes, their number included; None if no row has any
    key_sizes: Ints  # -1 for null
    value_sizes: Ints
    timestamps: Ints
    sizes_max: Ints  # the most that each row takes, wherever in a batch it stands

    def slice(self, first: int, end: int) -> MeasuredRows:
        """Those of the rows from `first` on and before `end`."""

        def cut(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column[first:end]

        return MeasuredRows(
            cut(self.keys),
            cut(self.values),
            cut(self.headers),
            self.key_sizes[first:end],
            self.value_sizes[first:end],
            self.timestamps[first:end],
            self.sizes_max[first:end],
        )


def measure(piece: pa.RecordBatch, now_ms: int) -> MeasuredRows:
    """Look at every column of at least one row. ValueError if a row cannot be a record."""
    columns = {name: piece.column(name) for name in COLUMNS if name in piece.schema.names}
    count = piece.num_rows
    keys, key_sizes = _contents(columns.get("key"), count)
    values, value_sizes = _contents(columns.get("value"), count)
    headers, header_sizes = _header_bytes(columns.get("headers"), count)
    timestamps = _timestamps(columns.get("timestamp"), count, now_ms)
    delta_max = int(timestamps.max()) - int(timestamps.min())
    if delta_max >= 1 << 63:
        raise ValueError("the timestamps lie further apart than 64 bits can say; give times that are real")
    sizes = header_sizes + 1 + len(varint_columns(np.array([delta_max]))) + OFFSET_DELTA_BYTES_MAX
    for contents in (key_sizes, value_sizes):
        sizes += varint_sizes(contents) + np.maximum(contents, 0)
    sizes += varint_sizes(sizes)
    if (largest := int(sizes.max())) > RECORD_BYTES_MAX:
        raise ValueError(
            f"row {int(sizes.argmax())} makes a record of {largest} bytes; a batch holds {RECORD_BYTES_MAX} at most"
        )
    return MeasuredRows(keys, values, headers, key_sizes, value_sizes, timestamps, sizes)


def _contents(column: pa.Array | None, count: int) -> tuple[pa.Array | None, Ints]:
    """The column as binary, empty where it was null, and the size of each element, -1 for null."""
    if column is None or column.null_count == count:
        return None, np.full(count, -1, dtype=np.int64)
    contents = column.cast(pa.binary())
    sizes = pc.binary_length(contents).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return contents.fill_null(b"") if contents.null_count else contents, sizes


def _timestamps(column: pa.Array | None, count: int, now_ms: int) -> Ints:
    """Milliseconds since 1970; numbers are taken for such. What is finer than that is cut off."""
    if column is None or column.null_count == count:
        return np.full(count, now_ms, dtype=np.int64)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    ticks: Ints = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(column.type):
        ticks = ticks * 1000 if column.type.unit == "s" else ticks // TICKS_PER_MILLI[column.type.unit]
    return np.where(is_null, now_ms, ticks)


def _header_bytes(column: pa.Array | None, count: int) -> tuple[pa.Array | None, Ints]:
    """Each row's headers as a record carries them, and how many bytes that takes."""
    if column is None or column.null_count == count:
        return None, np.ones(count, dtype=np.int64)  # a byte that says: none
    counts = pc.list_value_length(column).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    names, values = column.flatten().flatten()  # of the lists, and then of the structs in them
    if names.null_count:
        row = int(np.searchsorted(np.cumsum(counts), pc.index(names.is_null(), True).as_py(), side="right"))
        raise ValueError(f"row {row} has a header without a key; Kafka wants one, which may be empty")
    names, name_sizes = _contents(names, len(names))
    values, value_sizes = _contents(values, len(values))
    if names is None:
        return None, np.ones(count, dtype=np.int64)
    parts = [
        binary_column(varint_columns(name_sizes)),
        names,
        binary_column(varint_columns(value_sizes)),
        NOTHING if values is None else values,
    ]
    joined = pc.binary_join_element_wise(*parts, NOTHING)
    _, edges, contents = joined.buffers()
    first_slots = np.concatenate(([0], np.cumsum(counts)))
    row_edges = np.frombuffer(edges, dtype=np.int32)[first_slots]
    in_row = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(row_edges), contents])
    headers = pc.binary_join_element_wise(binary_column(varint_columns(counts)), in_row, NOTHING)
    return headers, np.diff(row_edges).astype(np.int64) + varint_sizes(counts)
