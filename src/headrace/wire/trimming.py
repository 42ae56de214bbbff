"""Take records out of a batch and leave everything else as it was: offsets, times, producer, codec.

This is what compaction does to batches. A trimmed batch keeps its base offset and its last offset delta, so that a
reader's place moves on over the gaps; a record that stays is copied as the bytes that it was.

Walking is a hot loop over every record of a log: keys are cut out, values and headers are passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.batches import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    Codec,
    CorruptBatch,
    seal,
)
from headrace.wire.compression import compress, decompress
from headrace.wire.records import RECORD_SIZE_MIN
from headrace.wire.varints import ONE_BYTE, VARLONG_BYTES_MAX, encode_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.wire.batches import BatchHeader


class RecordSpan(NamedTuple):
    """Where a record lies in the bytes of its batch's records, and what compaction has to know of it."""

    start: int
    end: int
    offset: int
    key: bytes | None
    is_tombstone: bool
    """True if it has no value: it deletes its key."""
    timestamp_delta: int
    deltas_start: int
    """Where the timestamp delta begins; the record's attributes, one byte, stand before it."""
    rest_start: int
    """What follows the timestamp delta."""


TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1  # what 64 bits hold

_new = tuple.__new__  # half the time of the named tuple's own constructor, once for every record


def records_of(batch: memoryview, header: BatchHeader, *, inflate_max: int) -> bytes:
    """The records of a whole batch as plain bytes. The CRC is the caller's to check."""
    body = bytes(decompress(header.codec, batch[HEADER_SIZE:], inflate_max=inflate_max))
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(body):
        raise CorruptBatch(f"the batch says that it has {header.record_count} records in {len(body)} bytes")
    return body


def spans_of(header: BatchHeader, body: bytes) -> Iterator[RecordSpan]:
    """Every record of a batch, in order. CorruptBatch if the bytes are none."""
    base_offset = header.base_offset
    position = 0
    previous_delta = -1
    index = 0
    try:
        for index in range(header.record_count):
            start = position
            if (byte := body[position]) < 0x80:
                length, position = ONE_BYTE[byte], position + 1
            else:
                length, position = read_varint(body, position)
            end = position + length
            position += 1  # the record's attributes, which mean nothing yet
            deltas_start = position
            if (byte := body[position]) < 0x80:
                timestamp_delta, position = ONE_BYTE[byte], position + 1
            else:
                timestamp_delta, position = read_varint(body, position, VARLONG_BYTES_MAX)
            rest_start = position
            if (byte := body[position]) < 0x80:
                offset_delta, position = ONE_BYTE[byte], position + 1
            else:
                offset_delta, position = read_varint(body, position)
            if (byte := body[position]) < 0x80:
                key_size, position = ONE_BYTE[byte], position + 1
            else:
                key_size, position = read_varint(body, position)
            key = None
            if key_size >= 0:
                key = body[position : position + key_size]
                position += key_size
            value_size, position = read_varint(body, position)
            if not previous_delta < offset_delta <= header.last_offset_delta:
                raise CorruptBatch(f"record {index} has offset delta {offset_delta} after {previous_delta}")
            if key_size < -1 or value_size < -1 or not position + max(0, value_size) < end <= len(body):
                raise CorruptBatch(f"record {index} has {length} bytes; its key and value do not fit in there")
            previous_delta = offset_delta
            yield _new(
                RecordSpan,
                (
                    start,
                    end,
                    base_offset + offset_delta,
                    key,
                    value_size < 0,
                    timestamp_delta,
                    deltas_start,
                    rest_start,
                ),
            )
            position = end
    except (IndexError, ValueError) as damage:
        raise CorruptBatch(f"record {index} cannot be read: {damage}") from damage
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last of {header.record_count} records")


def trim_batch(
    header: BatchHeader, body: bytes, kept: Sequence[RecordSpan], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only the records in `kept`, of which there is at least one, in its own codec.

    A delete horizon, if one is given, takes the place of the base timestamp, and the records' deltas count from there.
    """
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if delete_horizon_ms is None:
        records = b"".join([body[span.start : span.end] for span in kept])
    else:
        shift = base_timestamp - delete_horizon_ms
        records = b"".join([_moved(body, span, shift) for span in kept])
        base_timestamp, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = _within_64_bits(header.base_timestamp + max(span.timestamp_delta for span in kept))
    batch = bytearray(HEADER_SIZE)
    batch += compress(Codec(header.codec), records)
    trimmed = header._replace(
        length=len(batch) - LENGTH_OVERHEAD,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(kept),
    )
    return _sealed(trimmed, batch)


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without any record: it still says which offsets, and which of its producer's numbers, were used."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    emptied = header._replace(length=HEADER_SIZE - LENGTH_OVERHEAD, attributes=attributes, record_count=0)
    if header.attributes & DELETE_HORIZON_BIT:
        emptied = emptied._replace(base_timestamp=header.max_timestamp)
    return _sealed(emptied, bytearray(HEADER_SIZE))


def _moved(body: bytes, span: RecordSpan, shift: int) -> bytes:
    """The record with another distance from its batch's base timestamp.

    A producer may send any time. One so long ago that the distance has no room comes as near to it as it can.
    """
    record = b"".join(
        (
            body[span.deltas_start - 1 : span.deltas_start],
            encode_varint(_within_64_bits(span.timestamp_delta + shift)),
            body[span.rest_start : span.end],
        )
    )
    return encode_varint(len(record)) + record


def _within_64_bits(time_ms: int) -> int:
    return max(TIME_MIN, min(time_ms, TIME_MAX))


def _sealed(header: BatchHeader, batch: bytearray) -> bytearray:
    HEADER.pack_into(batch, 0, *header)
    seal(batch)
    return batch
