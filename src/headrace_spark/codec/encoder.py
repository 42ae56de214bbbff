"""Arrow to record batches: the rows of a column-wise table as the finished bytes that a producer sends.

Lengths and deltas of all rows are written with numpy, a byte column at a time; Arrow's element-wise join then puts them
and the contents together. Batches are made without a producer's identity; `patch_producer` gives them one later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.wire.batches.compression import compress
from headrace.wire.batches.header import (
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    read_header,
    seal,
)
from headrace_spark.codec.measured_rows import NOTHING, ROWS_PER_BATCH_MAX, measure
from headrace_spark.codec.varint_arrays import binary_column, byte_counts, varint_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.wire.batches.header import Buffer
    from headrace_spark.codec.measured_rows import MeasuredRows
    from headrace_spark.codec.varint_arrays import ByteColumn, Ints

BYTES_AT_ONCE: Final = 4 << 20  # rows that are laid out together: enough for numpy, and little beside their table
NO_HEADERS: Final = pa.scalar(b"\0", pa.binary())


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A finished record batch, but for the producer's id, epoch and sequence: `patch_producer` fills those in."""

    records: bytearray  # one whole record batch
    count: int


def encode(
    rows: pa.RecordBatch | pa.Table, *, codec: Codec, batch_bytes_max: int, now_ms: int
) -> Iterator[EncodedBatch]:
    """The rows as record batches, in order, each of at most `batch_bytes_max` before compression.

    Of the columns `key`, `value`, `headers` and `timestamp` each may be missing; others are not looked at. Without a
    timestamp a row gets `now_ms`. A row that is too large by itself gets a batch of its own: whether that is still
    welcome is for the broker to say.
    """
    # A table may come in many small chunks, which must not become as many small batches.
    for piece in rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]:
        if piece.num_rows:
            yield from _encode_piece(measure(piece, now_ms), codec, batch_bytes_max - HEADER_SIZE)


def patch_producer(
    batch: bytearray | memoryview, *, producer_id: int, epoch: int, base_sequence: int, is_transactional: bool
) -> None:
    """Give one finished batch the identity of a producer, in place. Its records are not opened."""
    header = read_header(batch)
    attributes = header.attributes & ~TRANSACTIONAL_BIT | (TRANSACTIONAL_BIT if is_transactional else 0)
    changed = header._replace(
        attributes=attributes, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence
    )
    HEADER.pack_into(batch, 0, *changed)
    seal(batch)


def _encode_piece(rows: MeasuredRows, codec: Codec, body_bytes_max: int) -> Iterator[EncodedBatch]:
    edges = _cut(rows.sizes_max, body_bytes_max)
    totals = np.concatenate(([0], np.cumsum(rows.sizes_max)))[edges]
    first = 0
    while first < len(edges) - 1:
        last = int(np.searchsorted(totals, totals[first] + BYTES_AT_ONCE, side="right")) - 1
        last = max(last, first + 1)
        batch_edges = edges[first : last + 1]
        part = rows.slice(batch_edges[0], batch_edges[-1])
        yield from _encode_batches(part, batch_edges - batch_edges[0], codec)
        first = last


def _cut(sizes: Ints, bytes_max: int) -> Ints:
    """Where batches begin, and the last one ends: as many rows in each as surely fit, and at least one."""
    ends = np.cumsum(sizes)
    edges = [0]
    while (first := edges[-1]) < len(sizes):
        before = int(ends[first - 1]) if first else 0
        next_first = int(np.searchsorted(ends, before + bytes_max, side="right"))
        edges.append(min(max(next_first, first + 1), first + ROWS_PER_BATCH_MAX))
    return np.array(edges, dtype=np.int64)


def _encode_batches(rows: MeasuredRows, edges: Ints, codec: Codec) -> Iterator[EncodedBatch]:
    """Batches of rows that are laid out in one go. `edges` are the rows at which a batch begins, and the end."""
    counts = np.diff(edges)
    base_timestamps = rows.timestamps[edges[:-1]]
    max_timestamps = np.maximum.reduceat(rows.timestamps, edges[:-1])
    joined = _join_records(rows, np.repeat(base_timestamps, counts), np.repeat(edges[:-1], counts))
    _, record_edges, contents = joined.buffers()
    body_edges = np.frombuffer(record_edges, dtype=np.int32)[edges].tolist()
    view = memoryview(contents)
    for index, count in enumerate(counts.tolist()):
        body = compress(codec, view[body_edges[index] : body_edges[index + 1]])
        times = int(base_timestamps[index]), int(max_timestamps[index])
        yield EncodedBatch(_finished(body, codec, count, *times), count)


def _join_records(rows: MeasuredRows, base_timestamps: Ints, first_rows: Ints) -> pa.Array:
    """Every record as the bytes of the protocol, one element each, one after the other in one buffer.

    `first_rows` and `base_timestamps` are those of the batch that each row goes into: deltas count from them.
    """
    count = len(rows.timestamps)
    timestamp_deltas = varint_columns(rows.timestamps - base_timestamps)
    offset_deltas = varint_columns(np.arange(count) - first_rows)
    key_lengths = varint_columns(rows.key_sizes)
    value_lengths = varint_columns(rows.value_sizes)
    no_attributes: list[ByteColumn] = [(np.zeros(count, dtype=np.uint8), None)]
    before_key = no_attributes + timestamp_deltas + offset_deltas + key_lengths
    lengths = (
        byte_counts(before_key + value_lengths, count) + np.maximum(rows.key_sizes, 0) + np.maximum(rows.value_sizes, 0)
    )
    lengths += 1 if rows.headers is None else pc.binary_length(rows.headers).to_numpy()
    before_key = varint_columns(lengths) + before_key
    if rows.keys is None:
        parts = [binary_column(before_key + value_lengths)]
    else:
        parts = [binary_column(before_key), rows.keys, binary_column(value_lengths)]
    if rows.values is not None:
        parts.append(rows.values)
    parts.append(NO_HEADERS if rows.headers is None else rows.headers)
    return pc.binary_join_element_wise(*parts, NOTHING)


def _finished(body: Buffer, codec: Codec, count: int, base_timestamp: int, max_timestamp: int) -> bytearray:
    batch = bytearray(HEADER_SIZE)
    batch += body
    header = BatchHeader(
        base_offset=0,
        length=len(batch) - LENGTH_OVERHEAD,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,  # once all that it covers is there
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    HEADER.pack_into(batch, 0, *header)
    seal(batch)
    return batch
