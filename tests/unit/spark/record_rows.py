"""Both sides of the comparisons: what Arrow holds, and what the house's own record decoder reads, in one form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records
from headrace_spark.codec.columns import Columns
from headrace_spark.codec.decoder import RangeDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.wire.messages.fetch import AbortedTransaction

TOPIC, PARTITION = "orders", 3
ALL = Columns(headers=True)
EVERYTHING = 1 << 62
INFLATE_MAX = 1 << 24
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def decoded(
    records: bytes | bytearray,
    *,
    start: int = 0,
    end: int = EVERYTHING,
    aborted: Sequence[AbortedTransaction] = (),
    read_committed: bool = True,
) -> list[Row]:
    """Everything that the decoder makes of one answer."""
    decoder = RangeDecoder(TOPIC, PARTITION, start, end, ALL, read_committed=read_committed)
    return [row for batch in decoder.decode(bytes(records), aborted) for row in rows_of(batch)]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    batch.validate(full=True)
    return [_row(fields) for fields in batch.to_pylist()]


def _row(fields: dict[str, Any]) -> Row:
    return Row(
        fields["offset"],
        (fields["timestamp"] - EPOCH) // timedelta(milliseconds=1),
        fields["timestampType"],
        fields["key"],
        fields["value"],
        tuple((header["key"], header["value"]) for header in fields["headers"] or ()),
    )


def expected(records: bytes | bytearray) -> list[Row]:
    """What the house's decoder, record by record, reads of the same whole batches."""
    rows, position = [], 0
    while position < len(records):
        header = read_header(records, position)
        batch = records[position : position + header.size]
        rows += [
            Row(
                record.offset,
                record.timestamp,
                int(header.is_log_append_time),
                record.key,
                record.value,
                record.headers,
            )
            for record in decode_records(batch, inflate_max=INFLATE_MAX)
        ]
        position += header.size
    return rows
