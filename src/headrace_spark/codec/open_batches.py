"""Batches of one Fetch answer that are opened, and decoded, together.

A producer that sends little makes batches of a record or two. Handled one by one, each would cost as much as a thousand
records do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from headrace.client.reading.partition_buffer import INFLATE_MAX
from headrace.wire.batches.compression import decompress
from headrace.wire.batches.header import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_TYPE_BIT, CorruptBatch, crc_matches
from headrace.wire.batches.records import RECORD_SIZE_MIN
from headrace_spark.codec.fields import read_fields, refuse_where
from headrace_spark.codec.record_starts import record_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.wire.batches.header import BatchHeader
    from headrace_spark.codec.fields import Fields
    from headrace_spark.codec.varint_arrays import Bytes, Ints

# Large enough that what numpy costs per call is forgotten, small enough that positions stay in the processor's cache.
ROWS_TOGETHER: Final = 32 * 1024
BYTES_TOGETHER: Final = 4 << 20
SPAN_MAX: Final = 1 << 30  # Arrow counts a binary column's bytes in 31 bits; a batch alone never has more


class OpenBatches:
    """Grows batch by batch; then its columns are read."""

    def __init__(self, answer: memoryview) -> None:
        self.row_count = 0
        self._answer = answer
        # The numbers in `add`, in that order. Plain tuples: the garbage collector soon takes no notice of them.
        self._batches: list[tuple[int, ...]] = []
        self._inflated: dict[int, memoryview] = {}  # bodies of compressed batches; others are where the answer has them
        self._first_position = 0
        self._byte_count = 0
        self._starts: list[Ints] = []  # of records, counted from where their batch's body begins
        self._starts_in_small_batches: list[int] = []  # not yet among the others: one array for many costs less

    def has_room(self, end: int) -> bool:
        """True if a batch that ends at `end` of the answer may join the others."""
        if not self._batches:
            return True
        is_small = self.row_count < ROWS_TOGETHER and self._byte_count < BYTES_TOGETHER
        return is_small and end - self._first_position <= SPAN_MAX

    def add(self, header: BatchHeader, batch: memoryview, position: int) -> None:
        """Open a whole batch, which stands at `position` of the answer. CorruptBatch if it is not sound."""
        if not crc_matches(batch, header):
            raise CorruptBatch("it does not match its CRC")
        base_offset, _, _, _, _, attributes, last_offset_delta, base_timestamp, max_timestamp, _, _, _, count = header
        body = batch[HEADER_SIZE:]
        if attributes & COMPRESSION_MASK:
            body = memoryview(decompress(header.codec, body, inflate_max=INFLATE_MAX))
            self._inflated[len(self._batches)] = body
        size = len(body)
        if not 0 <= count * RECORD_SIZE_MIN <= size:
            raise CorruptBatch(f"it says that it has {count} records in {size} bytes")
        starts = record_starts(body, count)
        if isinstance(starts, list):
            self._starts_in_small_batches += starts
        else:
            self._gather_small_batches()
            self._starts.append(starts)
        if not self._batches:
            self._first_position = position
        is_append_time = bool(attributes & TIMESTAMP_TYPE_BIT)
        timestamp = max_timestamp if is_append_time else base_timestamp
        self._batches.append(
            (base_offset, last_offset_delta, timestamp, is_append_time, count, position + HEADER_SIZE, size)
        )
        self._byte_count += size
        self.row_count += count

    def read(self) -> OpenRecords:
        """Everything that was added, side by side."""
        self._gather_small_batches()
        columns = np.array(self._batches, dtype=np.int64).T
        base_offsets, last_deltas, timestamps, types, counts, positions, sizes = columns
        body, body_starts = self._one_buffer(positions, sizes)
        starts = np.concatenate(self._starts)
        starts += np.repeat(body_starts, counts)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        is_filled = counts > 0
        ends[(np.cumsum(counts) - 1)[is_filled]] = (body_starts + sizes)[is_filled]
        fields = read_fields(body, starts, ends)
        return OpenRecords(body, fields, counts, base_offsets, last_deltas, timestamps, types)

    def locate(self, row: int) -> tuple[int, str]:
        """The base offset of the batch that the row is in, and which of its records it is."""
        for base_offset, _, _, _, count, _, _ in self._batches:
            if row < count:
                return base_offset, f"record {row} of {count}"
            row -= count
        raise AssertionError(row)

    def _one_buffer(self, positions: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        """A buffer that holds all bodies, and where in it each begins."""
        if not self._inflated:
            first, end = int(positions[0]), int(positions[-1] + sizes[-1])
            return np.frombuffer(self._answer[first:end], dtype=np.uint8), positions - first
        if len(sizes) == 1:
            return np.frombuffer(self._inflated[0], dtype=np.uint8), np.zeros(1, dtype=np.int64)
        places = enumerate(zip(positions.tolist(), sizes.tolist(), strict=True))
        bodies = (self._inflated.get(index, self._answer[at : at + size]) for index, (at, size) in places)
        return np.frombuffer(b"".join(bodies), dtype=np.uint8), np.cumsum(sizes) - sizes

    def _gather_small_batches(self) -> None:
        if self._starts_in_small_batches:
            self._starts.append(np.array(self._starts_in_small_batches, dtype=np.int64))
            self._starts_in_small_batches.clear()


class OpenRecords(NamedTuple):
    """The records of several batches in one buffer; of each batch, what its records count from."""

    body: Bytes
    fields: Fields  # one element for each record
    counts: Ints  # from here on one for each batch
    base_offsets: Ints
    last_offset_deltas: Ints
    base_timestamps: Ints  # the time of all its records, where the broker gave it
    timestamp_types: Ints

    def offsets(self) -> Ints:
        """Each record's offset. They rise throughout, and each is one of those that its batch's header speaks of."""
        deltas = self.fields.offset_deltas
        refuse_where((deltas < 0) | (deltas > self._per_row(self.last_offset_deltas)), "its offset is not the batch's")
        offsets = self._per_row(self.base_offsets) + deltas
        refuse_where(offsets[1:] <= offsets[:-1], "the next record does not have a higher offset")
        return offsets

    def timestamps(self) -> tuple[Ints, NDArray[np.int32]]:
        """Each record's time in milliseconds, and its type: 0 given by the producer, 1 by the broker."""
        deltas = self.fields.timestamp_deltas
        types = self._per_row(self.timestamp_types)
        if self.timestamp_types.any():
            deltas = deltas * (1 - types)
        bases = self._per_row(self.base_timestamps)
        timestamps = bases + deltas
        # A sum that went over the edge of 64 bits came back with the other sign.
        refuse_where(((bases ^ timestamps) & (deltas ^ timestamps)) < 0, "its time does not fit 64 bits")
        return timestamps, types.astype(np.int32)

    def _per_row(self, per_batch: Ints) -> Ints:
        return np.repeat(per_batch, self.counts)
