"""Produce (key 0) on the hot path: where the batches lie in a request, and the answer.

The general codec would copy each batch out of the receive buffer. This one returns positions, so that a batch goes
from the socket's buffer to the file in one piece. Everything here is about 2 µs for a request with one batch.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.primitives import Malformed

if TYPE_CHECKING:
    from collections.abc import Sequence

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
LOG_START_FROM = 5
RECORD_ERRORS_FROM = 8

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_PARTITION_SIZE = Struct(">ii")


class Produced(NamedTuple):
    """One partition's share of a request: `size` bytes at `start` of the buffer; size -1 means null."""

    partition: int
    start: int
    size: int


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[Produced]]]
    """By name, or by the 16 bytes of a topic id from version 13 on."""


class RecordError(NamedTuple):
    batch_index: int
    message: str | None


class ProduceOutcome(NamedTuple):
    """What is answered for one partition."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None


def decode_produce(buffer: bytearray | memoryview, position: int, end: int, version: int) -> ProduceRequest:
    """Read the body that lies in `buffer[position:end]`. Raises Malformed; allocates no more than the frame holds."""
    try:
        if version < FLEXIBLE_FROM:
            request, position = _decode_plain(buffer, position, end)
        else:
            request, position = _decode_flexible(buffer, position, end, version)
    except (StructError, UnicodeDecodeError, IndexError) as error:
        raise Malformed(f"Produce version {version}: {error}") from error
    if position > end:
        raise Malformed(f"Produce version {version}: the request ends {position - end} bytes after its frame")
    return request


def _decode_plain(buffer: bytearray | memoryview, position: int, end: int) -> tuple[ProduceRequest, int]:
    (size,) = _INT16.unpack_from(buffer, position)
    position += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(buffer, position)
    position += 10
    topics: list[tuple[str | bytes, list[Produced]]] = []
    for _ in range(topic_count):
        (size,) = _INT16.unpack_from(buffer, position)
        if size < 0:
            raise Malformed("Produce: a topic has no name")
        position += 2
        name = str(buffer[position : position + size], "utf-8")
        (partition_count,) = _INT32.unpack_from(buffer, position + size)
        position += size + 4
        parts: list[Produced] = []
        for _ in range(partition_count):
            partition, size = _PARTITION_SIZE.unpack_from(buffer, position)
            position += 8
            parts.append(Produced(partition, position, size))
            position += max(size, 0)
            if position > end:
                raise Malformed(f"Produce: the records of {name}-{partition} end after the frame")
        topics.append((name, parts))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), position


def _decode_flexible(
    buffer: bytearray | memoryview, position: int, end: int, version: int
) -> tuple[ProduceRequest, int]:
    transactional_id, position = _compact_string(buffer, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buffer, position)
    topic_count, position = _uvarint(buffer, position + 6)
    topics: list[tuple[str | bytes, list[Produced]]] = []
    for _ in range(topic_count - 1):
        name: str | bytes | None
        if version >= TOPIC_IDS_FROM:
            name = bytes(buffer[position : position + 16])
            position += 16
        else:
            name, position = _compact_string(buffer, position)
        if name is None:
            raise Malformed("Produce: a topic has no name")
        partition_count, position = _uvarint(buffer, position)
        parts: list[Produced] = []
        for _ in range(partition_count - 1):
            (partition,) = _INT32.unpack_from(buffer, position)
            size, position = _uvarint(buffer, position + 4)
            parts.append(Produced(partition, position, size - 1))
            position = skip_tags(buffer, position + max(size - 1, 0))
            if position > end:
                raise Malformed(f"Produce: the records of partition {partition} end after the frame")
        topics.append((name, parts))
        position = skip_tags(buffer, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), skip_tags(buffer, position)


def _uvarint(buffer: bytearray | memoryview, position: int) -> tuple[int, int]:
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Malformed("Produce: a length has more than 5 bytes")


def _compact_string(buffer: bytearray | memoryview, position: int) -> tuple[str | None, int]:
    size, position = _uvarint(buffer, position)
    if size == 0:
        return None, position
    end = position + size - 1
    return str(buffer[position:end], "utf-8"), end


def skip_tags(buffer: bytearray | memoryview, position: int) -> int:
    count, position = _uvarint(buffer, position)
    for _ in range(count):
        _, position = _uvarint(buffer, position)
        size, position = _uvarint(buffer, position)
        position += size
    return position


# The answer that nearly every request gets: one topic, one partition, no error.
_SUCCESS_TAIL = {
    3: Struct(">ihqqi"),
    4: Struct(">ihqqi"),
    5: Struct(">ihqqqi"),
    6: Struct(">ihqqqi"),
    7: Struct(">ihqqqi"),
    8: Struct(">ihqqqihi"),
}
_FRAME_HEADER = Struct(">ii")
_TOPIC_HEAD = Struct(">ih")
_PARTITION = Struct(">ihqq")
_ONE = _INT32.pack(1)


def encode_produce_response(
    correlation_id: int, version: int, topics: Sequence[tuple[str | bytes, Sequence[ProduceOutcome]]]
) -> bytes:
    """A whole frame, length included."""
    if version < FLEXIBLE_FROM:
        if len(topics) == 1 and len(topics[0][1]) == 1 and not topics[0][1][0].error_code:
            return _encode_one_success(correlation_id, version, topics[0])
        body = _encode_plain(version, topics)
        return _FRAME_HEADER.pack(len(body) + 4, correlation_id) + body
    body = _encode_flexible(version, topics)
    return _FRAME_HEADER.pack(len(body) + 5, correlation_id) + b"\x00" + body


def _encode_one_success(
    correlation_id: int, version: int, topic: tuple[str | bytes, Sequence[ProduceOutcome]]
) -> bytes:
    name = topic[0].encode() if isinstance(topic[0], str) else topic[0]
    partition, error, base_offset, append_time, log_start, _, _ = topic[1][0]
    tail = _SUCCESS_TAIL[version]
    if version >= RECORD_ERRORS_FROM:
        rest = tail.pack(partition, error, base_offset, append_time, log_start, 0, -1, 0)
    elif version >= LOG_START_FROM:
        rest = tail.pack(partition, error, base_offset, append_time, log_start, 0)
    else:
        rest = tail.pack(partition, error, base_offset, append_time, 0)
    size = len(name)
    return b"".join(
        (_FRAME_HEADER.pack(14 + size + len(rest), correlation_id), _TOPIC_HEAD.pack(1, size), name, _ONE, rest)
    )


def _encode_plain(version: int, topics: Sequence[tuple[str | bytes, Sequence[ProduceOutcome]]]) -> bytes:
    out = [_INT32.pack(len(topics))]
    for key, outcomes in topics:
        name = key.encode() if isinstance(key, str) else key
        out += (_INT16.pack(len(name)), name, _INT32.pack(len(outcomes)))
        for outcome in outcomes:
            out.append(_PARTITION.pack(*outcome[:4]))
            if version >= LOG_START_FROM:
                out.append(outcome.log_start_offset.to_bytes(8, "big", signed=True))
            if version >= RECORD_ERRORS_FROM:
                out.append(_INT32.pack(len(outcome.record_errors)))
                for record_error in outcome.record_errors:
                    out += (_INT32.pack(record_error.batch_index), _string(record_error.message))
                out.append(_string(outcome.error_message))
    out.append(_INT32.pack(0))  # throttle time
    return b"".join(out)


def _encode_flexible(version: int, topics: Sequence[tuple[str | bytes, Sequence[ProduceOutcome]]]) -> bytes:
    out = [_uvarint_bytes(len(topics) + 1)]
    for key, outcomes in topics:
        out.append(bytes(key) if version >= TOPIC_IDS_FROM and not isinstance(key, str) else _compact(str(key)))
        out.append(_uvarint_bytes(len(outcomes) + 1))
        for outcome in outcomes:
            out.append(_PARTITION.pack(*outcome[:4]))
            out.append(outcome.log_start_offset.to_bytes(8, "big", signed=True))
            out.append(_uvarint_bytes(len(outcome.record_errors) + 1))
            for record_error in outcome.record_errors:
                out += (_INT32.pack(record_error.batch_index), _compact(record_error.message), b"\x00")
            out += (_compact(outcome.error_message), b"\x00")
        out.append(b"\x00")
    out.append(b"\x00\x00\x00\x00\x00")  # throttle time, no tags
    return b"".join(out)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _compact(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    raw = text.encode()
    return _uvarint_bytes(len(raw) + 1) + raw


def _uvarint_bytes(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
