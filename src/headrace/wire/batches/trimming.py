"""Take records out of a batch and leave everything else as it was: offsets, times, producer, codec.

This is what compaction does to batches. A trimmed batch keeps its base offset and its last offset delta, so that a
reader's place moves on over the gaps; a record that stays is copied as the bytes that it was.

A batch may have millions of tiny records. None of them becomes an object that stays: they are looked at one by one,
and a byte for each says whether it is kept. Why `keys_of` walks on its own is said at the top of `records.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.batches.compression import compress, decompress
from headrace.wire.batches.header import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    Codec,
    CorruptBatch,
    seal,
)
from headrace.wire.batches.records import RECORD_SIZE_MIN
from headrace.wire.batches.varints import ONE_BYTE, VARLONG_BYTES_MAX, encode_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.wire.batches.header import BatchHeader


TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1  # what 64 bits hold


def records_of(batch: memoryview, header: BatchHeader, *, inflate_max: int) -> bytes:
    """The records of a whole batch as plain bytes. The CRC is the caller's to check."""
    body = bytes(decompress(header.codec, batch[HEADER_SIZE:], inflate_max=inflate_max))
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(body):
        raise CorruptBatch(f"the batch says that it has {header.record_count} records in {len(body)} bytes")
    return body


def keys_of(header: BatchHeader, body: bytes) -> Iterator[tuple[int, bytes | None, bool]]:
    """Offset and key of every record of a batch, in order, and whether it is a tombstone: then it has no value, and
    deletes its key. CorruptBatch if the bytes are none."""
    base_offset = header.base_offset
    position = 0
    previous_delta = -1
    index = 0
    try:
        for index in range(header.record_count):
            if (byte := body[position]) < 0x80:
                length, position = ONE_BYTE[byte], position + 1
            else:
                length, position = read_varint(body, position)
            end = position + length
            position += 1  # the record's attributes, which mean nothing yet
            if body[position] < 0x80:
                position += 1
            else:
                _, position = read_varint(body, position, VARLONG_BYTES_MAX)  # the time
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
            yield base_offset + offset_delta, key, value_size < 0
            position = end
    except (IndexError, ValueError) as damage:
        raise CorruptBatch(f"record {index} cannot be read: {damage}") from damage
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last of {header.record_count} records")


def trim_batch(
    header: BatchHeader, body: bytes, is_kept: Sequence[int], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only those records that `is_kept` has a 1 for, at least one, in its own codec.

    A delete horizon, if one is given, takes the place of the base timestamp, and the records' deltas count from there.
    `keys_of` has found the records to be in order.
    """
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if delete_horizon_ms is None:
        records, newest_delta = _copied(body, is_kept)
    else:
        records, newest_delta = _moved(body, is_kept, base_timestamp - delete_horizon_ms)
        base_timestamp, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = _within_64_bits(header.base_timestamp + newest_delta)
    batch = bytearray(HEADER_SIZE)
    batch += compress(Codec(header.codec), records)
    trimmed = header._replace(
        length=len(batch) - LENGTH_OVERHEAD,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=sum(is_kept),
    )
    return _sealed(trimmed, batch)


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without any record: it still says which offsets, and which of its producer's numbers, were used."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    emptied = header._replace(length=HEADER_SIZE - LENGTH_OVERHEAD, attributes=attributes, record_count=0)
    if header.attributes & DELETE_HORIZON_BIT:
        emptied = emptied._replace(base_timestamp=header.max_timestamp)
    return _sealed(emptied, bytearray(HEADER_SIZE))


def _copied(body: bytes, is_kept: Sequence[int]) -> tuple[bytearray, int]:
    """The records that stay, run by run, and the latest of their timestamp deltas."""
    records = bytearray()
    view = memoryview(body)
    position = run_start = 0
    newest_delta = TIME_MIN
    for stays in is_kept:
        start = position
        length, position = read_varint(body, position)
        if stays:
            delta, _ = read_varint(body, position + 1, VARLONG_BYTES_MAX)
            if delta > newest_delta:  # noqa: PLR1730 - max() costs three times as much, per record
                newest_delta = delta
        else:
            if run_start < start:
                records += view[run_start:start]
            run_start = position + length
        position += length
    records += view[run_start:position]
    return records, newest_delta


def _moved(body: bytes, is_kept: Sequence[int], shift: int) -> tuple[bytearray, int]:
    """The same with other distances from the batch's base timestamp.

    A producer may send any time. One so long ago that the distance has no room comes as near to it as it can.
    """
    records = bytearray()
    view = memoryview(body)
    position = 0
    newest_delta = TIME_MIN
    last_delta, moved = 0, encode_varint(_within_64_bits(shift))
    for stays in is_kept:
        length, position = read_varint(body, position)
        end = position + length
        if stays:
            delta, rest_start = read_varint(body, position + 1, VARLONG_BYTES_MAX)
            if delta != last_delta:  # records of one batch often have the same time
                last_delta, moved = delta, encode_varint(_within_64_bits(delta + shift))
            if delta > newest_delta:  # noqa: PLR1730 - max() costs three times as much, per record
                newest_delta = delta
            records += encode_varint(1 + len(moved) + end - rest_start)
            records += view[position : position + 1]  # the record's attributes
            records += moved
            records += view[rest_start:end]
        position = end
    return records, newest_delta


def _within_64_bits(time_ms: int) -> int:
    return max(TIME_MIN, min(time_ms, TIME_MAX))


def _sealed(header: BatchHeader, batch: bytearray) -> bytearray:
    HEADER.pack_into(batch, 0, *header)
    seal(batch)
    return batch
