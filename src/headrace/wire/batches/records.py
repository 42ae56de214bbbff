"""The records inside a batch: read them out of any batch, or build a new one.

Opening a batch costs far more than passing it on, so only features that need single records come here. Reading trusts
nothing: whatever is wrong with the bytes comes out as `CorruptBatch`, with a sentence that says where.

Both directions are hot loops in plain Python. One-byte varints, nearly all there are, are handled inline.

Records are walked in three places, on purpose: `decode_records` for all that is in one, `keys_and_values` for who loads
a log, `trimming.keys_of` for who compacts one. Each takes out only what it needs; a walk that they shared would cost
the fastest of them a third of its speed. They agree on the format: what is changed in one belongs into all three.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.batches.compression import compress, decompress
from headrace.wire.batches.header import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    CorruptBatch,
    crc_matches,
    read_header,
    seal,
)
from headrace.wire.batches.varints import (
    NULL_VARINT,
    ONE_BYTE,
    SMALL_END,
    SMALL_VARINTS,
    VARLONG_BYTES_MAX,
    encode_varint,
    read_varint,
)
from headrace.wire.walk import HEADERS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.wire.batches.header import Buffer

    Headers = Sequence[tuple[str, bytes | None]]
    NewRecord = tuple[int, bytes | None, bytes | None, Headers]
    """Timestamp, key, value, headers: a record that has no offset yet. `record[1:]` makes one of a `Record`."""

RECORD_SIZE_MIN = 7  # length, attributes, two deltas, key length, value length, header count: a byte each
RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5  # the same fields at their longest
TIMESTAMP_END = 1 << 63  # a time is a signed 64-bit number; base and delta may add up to more

# Header keys are text by convention only; this keeps bytes that are not UTF-8 intact through a decode and an encode.
_KEY_ERRORS = "surrogateescape"

_CONTROL_KEY = Struct(">hh")
_new_tuple = tuple.__new__  # a NamedTuple's own constructor takes twice as long


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ControlType(IntEnum):
    """How a transaction ended, as its marker in the log says."""

    ABORT = 0
    COMMIT = 1


def decode_records(batch: Buffer, *, inflate_max: int) -> Iterator[Record]:
    """Every record of one whole batch, in order.

    Records are made as they are asked for, so that a caller may stop early and a batch of a million tiny records never
    stands in memory as a million objects. Damage further back is therefore met only when the iteration gets there.
    """
    header, body = open_batch(batch, inflate_max=inflate_max)
    return _iterate(header, body)


def keys_and_values(batch: Buffer, *, inflate_max: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Of every record of one whole batch, faster than `decode_records` by a third: for who has a whole log to load.

    One of the three walks that the top of this file speaks of.
    """
    header, body = open_batch(batch, inflate_max=inflate_max)
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = read_varint(body, position)
            record_end = position + length
            position += 1
            while body[position] >= 0x80:  # the time
                position += 1
            position += 1
            while body[position] >= 0x80:  # the offset
                position += 1
            key, position = _read_bytes(body, position + 1)
            value, position = _read_bytes(body, position)
            if position >= record_end:
                raise CorruptBatch("a record's fields do not fit into its length")
            yield key, value
            position = record_end
    except (IndexError, ValueError) as damage:
        raise CorruptBatch(f"a record cannot be read: {damage}") from damage
    if position != len(body):
        raise CorruptBatch(f"the records have {position} bytes, the batch has {len(body)}")


def open_batch(batch: Buffer, *, inflate_max: int) -> tuple[BatchHeader, bytes]:
    """The header of one whole, undamaged batch, and its records as plain bytes."""
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise CorruptBatch(f"a batch has at least {HEADER_SIZE} bytes, here are {len(view)}")
    header = read_header(view)
    if header.magic != MAGIC:
        raise CorruptBatch(f"the batch has format {header.magic}; only format {MAGIC} is read")
    if header.size != len(view):
        raise CorruptBatch(f"the batch says that it has {header.size} bytes, here are {len(view)}")
    if not crc_matches(view, header):
        raise CorruptBatch("the batch does not match its CRC")
    body = bytes(decompress(header.codec, view[HEADER_SIZE:], inflate_max=inflate_max))
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(body):
        raise CorruptBatch(f"the batch says that it has {header.record_count} records in {len(body)} bytes")
    return header, body


def _iterate(header: BatchHeader, body: bytes) -> Iterator[Record]:
    """One of the three walks that the top of this file speaks of."""
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    last_offset_delta = header.last_offset_delta
    append_time = header.max_timestamp if header.is_log_append_time else None
    position = 0
    previous_delta = -1
    index = 0
    try:
        for index in range(header.record_count):
            if (byte := body[position]) < 0x80:
                length, position = ONE_BYTE[byte], position + 1
            else:
                length, position = read_varint(body, position)
            record_end = position + length
            position += 1  # the record's attributes, which mean nothing yet
            if (byte := body[position]) < 0x80:
                timestamp_delta, position = ONE_BYTE[byte], position + 1
            else:
                timestamp_delta, position = read_varint(body, position, VARLONG_BYTES_MAX)
            if (byte := body[position]) < 0x80:
                offset_delta, position = ONE_BYTE[byte], position + 1
            else:
                offset_delta, position = read_varint(body, position)
            key, position = _read_bytes(body, position)
            value, position = _read_bytes(body, position)
            headers: tuple[tuple[str, bytes | None], ...] = ()
            if body[position]:
                headers, position = _read_headers(body, position)
            else:
                position += 1
            # Reading only ever moves forward, so this one check also finds negative and overlong fields.
            if position != record_end:
                raise CorruptBatch(f"record {index} says that it has {length} bytes; its fields do not fill just these")
            if not previous_delta < offset_delta <= last_offset_delta:
                raise CorruptBatch(f"record {index} has offset delta {offset_delta} after {previous_delta}")
            previous_delta = offset_delta
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            if not -TIMESTAMP_END <= timestamp < TIMESTAMP_END:
                raise CorruptBatch(f"record {index} has the time {timestamp}, which does not fit 64 bits")
            yield _new_tuple(Record, (base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise CorruptBatch(f"record {index} runs past the end of the batch") from None
    except ValueError as damage:
        raise CorruptBatch(f"record {index} cannot be read: {damage}") from damage
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last of {header.record_count} records")


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or value. May reach past the body's end: what is read next finds that out."""
    if (byte := body[position]) < 0x80:
        size, start = ONE_BYTE[byte], position + 1
    else:
        size, start = read_varint(body, position)
    if size >= 0:
        end = start + size
        return body[start:end], end
    if size == -1:
        return None, start
    raise ValueError(f"a field has the length {size}")


def _read_headers(body: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(body, position)
    if not 0 <= count <= HEADERS_MAX:  # no node takes more; and a reader would need gigabytes for those of a few KiB
        raise ValueError(f"it says that it has {count} headers")
    headers = []
    for _ in range(count):  # a count that lies soon meets the end of the body
        key, position = _read_bytes(body, position)
        if key is None:
            raise ValueError("a header has no key")
        value, position = _read_bytes(body, position)
        headers.append((key.decode(errors=_KEY_ERRORS), value))
    return tuple(headers), position


def control_type(record: Record) -> ControlType:
    """What a record of a control batch marks."""
    try:
        _version, marker = _CONTROL_KEY.unpack_from(record.key or b"")
        return ControlType(marker)
    except (StructError, ValueError) as damage:
        raise CorruptBatch(f"the control record at {record.offset} marks neither an abort nor a commit") from damage


class BatchBuilder:
    """Gathers records and makes one batch of them."""

    __slots__ = ("_base_timestamp", "_buffer", "_codec", "_max_timestamp", "count")

    def __init__(self, codec: Codec = Codec.NONE) -> None:
        self._codec = codec
        self._buffer = bytearray(HEADER_SIZE)
        self._base_timestamp = -1
        self._max_timestamp = -1
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, header included, before compression."""
        return len(self._buffer)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """Add a record; return the batch's `size`, the most it can have once it is closed and not compressed."""
        count = self.count
        if not count:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        record = b"".join(
            (
                b"\0",
                encode_varint(timestamp - self._base_timestamp),
                SMALL_VARINTS[count] if count < SMALL_END else encode_varint(count),
                NULL_VARINT if key is None else encode_varint(len(key)),
                key or b"",
                NULL_VARINT if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else b"\0",
            )
        )
        buffer = self._buffer
        buffer += encode_varint(len(record))
        buffer += record
        self.count = count + 1
        return len(buffer)

    def close(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        log_append_time: int | None = None,
    ) -> bytearray:
        """The whole batch. The builder is spent: the bytes that it gathered are the bytes that it returns."""
        if not self.count:
            raise ValueError("a batch has at least one record")
        batch, self._buffer = self._buffer, bytearray()
        if self._codec is not Codec.NONE:
            with memoryview(batch) as view:
                batch = bytearray(HEADER_SIZE) + compress(self._codec, view[HEADER_SIZE:])
        attributes = (
            self._codec
            | (TIMESTAMP_TYPE_BIT if log_append_time is not None else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
        )
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LENGTH_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,  # the CRC, once all it covers is there
            attributes,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp if log_append_time is None else log_append_time,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        seal(batch)
        return batch


def encode_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """One batch of these records, numbered from `base_offset` on in this order."""
    builder = BatchBuilder(codec)
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.close(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        log_append_time=log_append_time,
    )


def record_size_max(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """The most bytes a record can add to a batch, wherever in the batch it stands."""
    size = RECORD_OVERHEAD_MAX + len(key or b"") + len(value or b"")
    return size + len(_encode_headers(headers)) if headers else size


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode(errors=_KEY_ERRORS)
        parts += (encode_varint(len(key)), key)
        parts += (NULL_VARINT,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)
