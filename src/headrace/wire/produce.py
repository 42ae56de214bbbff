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

    from headrace.wire.batches.examination import RecordError
    from headrace.wire.batches.header import Buffer

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
LOG_START_FROM = 5
RECORD_ERRORS_FROM = 8
PARTITIONS_MAX = 20_000  # in one request; a node leads a few thousand, and each one named costs microseconds
TAGS_MAX = 256  # in one request; the protocol has none
STRING_MAX = 32_767  # bytes: what the older versions have room for

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_PARTITION_SIZE = Struct(">ii")
_UP_TO_NAME = Struct(">hhiih")  # 14 bytes: no transactional id, acks, timeout, one topic, size of its name
_FLEXIBLE_START = Struct(">BBhiB")
_FLEXIBLE_PARTITION = Struct(">Bi")
_ONE_PARTITION = Struct(">iii")  # 12 bytes: one partition, its number, size of its records


Produced = tuple[int, int, int]
"""One partition's share of a request: its number, and where its bytes start and how many they are; -1 means null."""


ProduceRequest = tuple["str | None", int, int, "list[tuple[str | bytes, list[Produced]]]"]
"""Transactional id, acks, timeout in ms, and the topics: by name, or by the 16 bytes of an id from version 13 on.

A plain tuple, as are the parts of it: one of these is made for each request, and a named one takes twice as long.
"""


class ProduceOutcome(NamedTuple):
    """What is answered for one partition."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None


class TooManyPartitions(Malformed):
    """More topics, or more partitions, than whoever decodes wants to see."""


def decode_produce(buffer: Buffer, position: int, end: int, version: int, most: int = PARTITIONS_MAX) -> ProduceRequest:
    """Read the body that lies in `buffer[position:end]`. Raises Malformed; allocates no more than the frame holds.

    Raises TooManyPartitions as soon as there are more than `most` topics, or partitions.
    """
    try:
        if version >= FLEXIBLE_FROM:
            request, position = _decode_flexible(buffer, position, end, version, most)
        else:
            request, position = _decode_plain(buffer, position, end, most)
    except (StructError, UnicodeDecodeError, IndexError) as error:
        raise Malformed(f"Produce version {version}: {error}") from error
    if position > end:
        raise Malformed(f"Produce version {version}: the request ends {position - end} bytes after its frame")
    return request


OneBatch = tuple[int, int, "str | bytes", int, int, int]
"""Acks, timeout in ms, topic, partition, and where the batch starts and how many bytes it has."""


def decode_one_batch(buffer: Buffer, position: int, end: int, version: int) -> OneBatch | None:
    """A request that is nothing but one batch; None if it is anything else. `position` is where the client id ends.

    Most requests have no transaction, one topic and one partition, and no tags. They are read in half the time that
    `decode_produce` takes. What is odd in any way is left to that.
    """
    try:
        if version < FLEXIBLE_FROM:
            return _decode_one_plain(buffer, position, end)
        return _decode_one_flexible(buffer, position, end, version)
    except (StructError, IndexError, UnicodeDecodeError, Malformed):
        return None


def _decode_one_plain(buffer: Buffer, position: int, end: int) -> OneBatch | None:
    no_id, acks, timeout_ms, topic_count, name_size = _UP_TO_NAME.unpack_from(buffer, position)
    after_name = position + 14 + name_size
    start = after_name + 12
    if no_id != -1 or topic_count != 1 or name_size < 0 or start > end:
        return None
    partition_count, partition, size = _ONE_PARTITION.unpack_from(buffer, after_name)
    if partition_count != 1 or size < 0 or start + size > end:
        return None
    return acks, timeout_ms, str(buffer[position + 14 : after_name], "utf-8"), partition, start, size


def _decode_one_flexible(buffer: Buffer, position: int, end: int, version: int) -> OneBatch | None:
    # No tags in the header, no transactional id, acks, timeout, one topic (counts are written plus one).
    header_tags, no_id, acks, timeout_ms, topic_count = _FLEXIBLE_START.unpack_from(buffer, position)
    if header_tags or no_id or topic_count != 2:
        return None
    position += 9
    topic: str | bytes
    if version >= TOPIC_IDS_FROM:
        after_topic = position + 16
        topic = bytes(buffer[position:after_topic])
    else:
        name_size = buffer[position]
        if not 1 <= name_size < 0x80:
            return None
        after_topic = position + name_size
        topic = str(buffer[position + 1 : after_topic], "utf-8")
    partition_count, partition = _FLEXIBLE_PARTITION.unpack_from(buffer, after_topic)
    size_plus_one, start = _uvarint(buffer, after_topic + 5)
    size = size_plus_one - 1
    records_end = start + size
    # Three empty sets of tags follow: the partition's, the topic's, the request's.
    if partition_count != 2 or size < 0 or records_end + 3 != end or any(buffer[records_end:end]):
        return None
    return acks, timeout_ms, topic, partition, start, size


def _decode_plain(buffer: Buffer, position: int, end: int, most: int) -> tuple[ProduceRequest, int]:
    (size,) = _INT16.unpack_from(buffer, position)
    position += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(buffer, position)
    position += 10
    _room_after(topic_count, most)
    room = most
    topics: list[tuple[str | bytes, list[Produced]]] = []
    for _ in range(topic_count):
        (size,) = _INT16.unpack_from(buffer, position)
        if size < 0:
            raise Malformed("Produce: a topic has no name")
        position += 2
        name = str(buffer[position : position + size], "utf-8")
        (partition_count,) = _INT32.unpack_from(buffer, position + size)
        position += size + 4
        room = _room_after(partition_count, room)
        parts: list[Produced] = []
        for _ in range(partition_count):
            partition, size = _PARTITION_SIZE.unpack_from(buffer, position)
            position += 8
            parts.append((partition, position, size))
            position += max(size, 0)
            if position > end:
                raise Malformed(f"Produce: the records of {name}-{partition} end after the frame")
        topics.append((name, parts))
    return (transactional_id, acks, timeout_ms, topics), position


def _decode_flexible(buffer: Buffer, position: int, end: int, version: int, most: int) -> tuple[ProduceRequest, int]:
    transactional_id, position = _compact_string(buffer, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buffer, position)
    topic_count, position = _uvarint(buffer, position + 6)
    _room_after(topic_count - 1, most)
    room, tags = most, Tags()
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
        room = _room_after(partition_count - 1, room)
        parts: list[Produced] = []
        for _ in range(partition_count - 1):
            (partition,) = _INT32.unpack_from(buffer, position)
            size, position = _uvarint(buffer, position + 4)
            parts.append((partition, position, size - 1))
            position = tags.skip(buffer, position + max(size - 1, 0))
            if position > end:
                raise Malformed(f"Produce: the records of partition {partition} end after the frame")
        topics.append((name, parts))
        position = tags.skip(buffer, position)
    return (transactional_id, acks, timeout_ms, topics), tags.skip(buffer, position)


def _room_after(count: int, room: int) -> int:
    """How many more may follow `count` topics or partitions. A null array is as empty as an empty one."""
    if count > room:
        raise TooManyPartitions(f"Produce: {count} topics or partitions, where at most {room} more may be named")
    return room - max(count, 0)


def _uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
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


def _compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    size, position = _uvarint(buffer, position)
    if size == 0:
        return None, position
    if size > STRING_MAX + 1:
        raise Malformed(f"Produce: a name or an id of {size - 1} bytes, at most {STRING_MAX} are read")
    end = position + size - 1
    return str(buffer[position:end], "utf-8"), end


class Tags:
    """The tagged fields of one request, which mean nothing to us: how many more of them are read."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = TAGS_MAX

    def skip(self, buffer: Buffer, position: int) -> int:
        """Where they end."""
        count, position = _uvarint(buffer, position)
        self._left -= count
        if self._left < 0:
            raise Malformed(f"Produce: more than {TAGS_MAX} tagged fields")
        for _ in range(count):
            _, position = _uvarint(buffer, position)
            size, position = _uvarint(buffer, position)
            position += size
        return position


_FRAME_HEADER = Struct(">ii")
_PARTITION = Struct(">ihqq")


def encode_produce_response(
    correlation_id: int, version: int, topics: Sequence[tuple[str | bytes, Sequence[bytes]]]
) -> bytes:
    """A whole frame, length included. By topic, with the outcomes of its partitions as `encode_outcome` writes them."""
    if version < FLEXIBLE_FROM:
        body = _encode_plain(topics)
        return _FRAME_HEADER.pack(len(body) + 4, correlation_id) + body
    body = _encode_flexible(version, topics)
    return _FRAME_HEADER.pack(len(body) + 5, correlation_id) + b"\x00" + body


def encode_outcome(version: int, outcome: ProduceOutcome) -> bytes:
    """What a response says of one partition."""
    out = [_PARTITION.pack(*outcome[:4])]
    if version >= LOG_START_FROM:
        out.append(_INT64.pack(outcome.log_start_offset))
    if version >= FLEXIBLE_FROM:
        out.append(_uvarint_bytes(len(outcome.record_errors) + 1))
        for record_error in outcome.record_errors:
            out += (_INT32.pack(record_error.batch_index), _compact(record_error.message), b"\x00")
        out += (_compact(outcome.error_message), b"\x00")
    elif version >= RECORD_ERRORS_FROM:
        out.append(_INT32.pack(len(outcome.record_errors)))
        for record_error in outcome.record_errors:
            out += (_INT32.pack(record_error.batch_index), _string(record_error.message))
        out.append(_string(outcome.error_message))
    return b"".join(out)


# The answer that nearly every request gets: one topic, one partition, no error. What follows the topic's name:
# one partition, its fields, no record errors, no message, no throttling; with the tags that flexible versions have.
_SUCCESS_V3 = Struct(">iihqqi")
_SUCCESS_V5 = Struct(">iihqqqi")
_SUCCESS_V8 = Struct(">iihqqqihi")
_SUCCESS_V9 = Struct(">BihqqqHHIB")
_ONE_TOPIC = Struct(">iiih")


def encode_one_success(
    correlation_id: int, version: int, topic: str | bytes, partition: int, offsets: tuple[int, int, int]
) -> bytes:
    """The same as `encode_produce_response`; `offsets` are base offset, time of append and log start."""
    base_offset, append_time_ms, log_start = offsets
    if version >= FLEXIBLE_FROM:
        rest = _SUCCESS_V9.pack(2, partition, 0, base_offset, append_time_ms, log_start, 0x0100, 0, 0, 0)
        key = b"\x02" + (topic if version >= TOPIC_IDS_FROM and not isinstance(topic, str) else _compact(str(topic)))
        return b"".join((_FRAME_HEADER.pack(5 + len(key) + len(rest), correlation_id), b"\x00", key, rest))
    name = topic.encode() if isinstance(topic, str) else topic
    if version >= RECORD_ERRORS_FROM:
        rest = _SUCCESS_V8.pack(1, partition, 0, base_offset, append_time_ms, log_start, 0, -1, 0)
    elif version >= LOG_START_FROM:
        rest = _SUCCESS_V5.pack(1, partition, 0, base_offset, append_time_ms, log_start, 0)
    else:
        rest = _SUCCESS_V3.pack(1, partition, 0, base_offset, append_time_ms, 0)
    size = len(name)
    return b"".join((_ONE_TOPIC.pack(10 + size + len(rest), correlation_id, 1, size), name, rest))


def with_throttle(answer: bytes, version: int, throttle_ms: int) -> bytes:
    """The same answer for a client that is to wait. It is the last field; so few answers have it that it is not handed
    through the encoders."""
    end = len(answer) - 1 if version >= FLEXIBLE_FROM else len(answer)  # of what has no tags
    return answer[: end - 4] + _INT32.pack(throttle_ms) + answer[end:]


def _encode_plain(topics: Sequence[tuple[str | bytes, Sequence[bytes]]]) -> bytes:
    out = [_INT32.pack(len(topics))]
    for key, outcomes in topics:
        name = key.encode() if isinstance(key, str) else key
        out += (_INT16.pack(len(name)), name, _INT32.pack(len(outcomes)), *outcomes)
    out.append(_INT32.pack(0))  # throttle time
    return b"".join(out)


def _encode_flexible(version: int, topics: Sequence[tuple[str | bytes, Sequence[bytes]]]) -> bytes:
    out = [_uvarint_bytes(len(topics) + 1)]
    for key, outcomes in topics:
        out.append(bytes(key) if version >= TOPIC_IDS_FROM and not isinstance(key, str) else _compact(str(key)))
        out += (_uvarint_bytes(len(outcomes) + 1), *outcomes, b"\x00")
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
