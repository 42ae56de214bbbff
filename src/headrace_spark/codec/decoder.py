"""Record batches to Arrow: what a task reads of one partition, from the bytes of Fetch answers.

The batches of an answer are looked at one by one (offsets, CRC, transactions), and their records by the thousand: numpy
finds where the fields of each record lie, and Arrow gathers the slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.client.reading.partition_buffer import TransactionSieve
from headrace.wire.batches.header import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, CorruptBatch, read_header
from headrace_spark.codec.columns import TIMESTAMP_TYPE, Columns, schema_for
from headrace_spark.codec.header_columns import header_column
from headrace_spark.codec.open_batches import OpenBatches
from headrace_spark.codec.slices import gather
from headrace_spark.codec.varint_arrays import BadRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.wire.batches.header import BatchHeader
    from headrace.wire.messages.fetch import AbortedTransaction
    from headrace_spark.codec.varint_arrays import Ints

__all__ = ["Columns", "RangeDecoder", "schema_for"]

ROWS_MAX: Final = 128 * 1024  # in an Arrow batch; a single record batch of a few bytes per record may have more
MICROS_PER_MILLI: Final = 1000
MILLIS_MAX: Final = (2**63 - 1) // MICROS_PER_MILLI


class RangeDecoder:
    """Decodes the records of one partition with offsets from `start` on and before `end`, answer by answer."""

    def __init__(
        self, topic: str, partition: int, start: int, end: int, columns: Columns, *, read_committed: bool
    ) -> None:
        self.next_offset = start
        """The offset to fetch from next. It passes over markers, aborted records and what compaction took away."""
        self._topic = topic
        self._partition = partition
        self._end = end
        self._columns = columns
        self._schema = schema_for(columns)
        self._read_committed = read_committed
        self._topic_column = pa.nulls(0, pa.string())
        self._partition_column = pa.nulls(0, pa.int32())

    @property
    def is_done(self) -> bool:
        """Whether all of the range was decoded."""
        return self.next_offset >= self._end

    def decode(
        self, records: bytes | bytearray | memoryview, aborted: Sequence[AbortedTransaction] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The records of an answer, in order. If its last batch is cut short, that comes again with the next fetch.

        `next_offset` moves with what is handed out, and is final once the iteration has ended.
        """
        answer = memoryview(records)
        sieve = TransactionSieve(aborted if self._read_committed else ())
        opened = OpenBatches(answer)
        next_offset = self.next_offset
        position = 0
        while len(answer) - position >= HEADER_SIZE and next_offset < self._end:
            header = read_header(answer, position)
            size = self._checked_size(header)
            if position + size > len(answer):
                break
            if header.base_offset >= self._end:
                next_offset = self._end
                break
            if not opened.has_room(position + size):
                yield from self._rows(opened, next_offset)
                opened = OpenBatches(answer)
            batch = answer[position : position + size]
            next_of_batch = header.next_offset
            try:
                if sieve.lets_through(header, batch) and next_of_batch > next_offset:
                    opened.add(header, batch, position)
            except CorruptBatch as damage:
                raise self._damaged(header.base_offset, str(damage)) from damage
            next_offset = max(next_offset, next_of_batch)
            position += size
        yield from self._rows(opened, next_offset)

    def _checked_size(self, header: BatchHeader) -> int:
        # The format stands at the same place in every format there ever was; all else hangs on it.
        if header.magic != MAGIC:
            raise self._damaged(header.base_offset, f"it has format {header.magic}, and only format {MAGIC} is read")
        if header.length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise self._damaged(header.base_offset, "it says that it is shorter than its own header")
        return header.size

    def _rows(self, opened: OpenBatches, next_offset: int) -> Iterator[pa.RecordBatch]:
        """What is in the range of the batches opened so far; nothing, one Arrow batch, or several of bounded size."""
        try:
            rows = self._decode(opened) if opened.row_count else None
        except BadRow as bad:
            base_offset, which = opened.locate(bad.row)
            raise self._damaged(base_offset, f"{which}: {bad.reason}") from bad
        if rows is not None:
            for first in range(0, rows.num_rows - ROWS_MAX, ROWS_MAX):
                self.next_offset = rows["offset"][first + ROWS_MAX].as_py()
                yield rows.slice(first, ROWS_MAX)
            rows = rows.slice((rows.num_rows - 1) // ROWS_MAX * ROWS_MAX)
        self.next_offset = next_offset
        if rows is not None:
            yield rows

    def _decode(self, opened: OpenBatches) -> pa.RecordBatch | None:
        records = opened.read()
        body, fields = records.body, records.fields
        offsets = records.offsets()
        timestamps, types = records.timestamps()
        # A fetch from the middle of a batch brings the whole batch, and the last one may reach past the end.
        first, end = (int(row) for row in np.searchsorted(offsets, (self.next_offset, self._end)))
        if first == end:
            return None
        if end - first < len(offsets):
            fields = fields.slice(first, end)
            offsets, timestamps, types = offsets[first:end], timestamps[first:end], types[first:end]
        columns = []
        if self._columns.key:
            columns.append(gather(body, fields.key_starts, fields.key_sizes))
        if self._columns.value:
            columns.append(gather(body, fields.value_starts, fields.value_sizes))
        columns += self._place_columns(end - first)
        columns += [pa.array(offsets), _instants(timestamps), pa.array(types)]
        if self._columns.headers:
            columns.append(header_column(body, fields, first))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _place_columns(self, count: int) -> list[pa.Array]:
        """Topic and partition, the same in every row: made once, as long as was ever needed, and sliced."""
        if len(self._topic_column) < count:
            self._topic_column = pa.repeat(pa.scalar(self._topic, pa.string()), count)
            self._partition_column = pa.repeat(pa.scalar(self._partition, pa.int32()), count)
        return [self._topic_column.slice(0, count), self._partition_column.slice(0, count)]

    def _damaged(self, offset: int, reason: str) -> CorruptBatch:
        return CorruptBatch(
            f"the batch at offset {offset} of topic {self._topic!r}, partition {self._partition}, is damaged: {reason}"
        )


def _instants(timestamps_ms: Ints) -> pa.Array:
    """Milliseconds as Spark's instants. A time so far away that it has no microseconds is nobody's time: null."""
    is_too_far = (timestamps_ms > MILLIS_MAX) | (timestamps_ms < -MILLIS_MAX)
    micros = pa.array(timestamps_ms * MICROS_PER_MILLI, mask=is_too_far if is_too_far.any() else None)
    return micros.view(TIMESTAMP_TYPE)
