"""The records of coordinators' logs as bytes: Kafka's own formats, so that its tools can read them.

A key begins with its kind, a value with its version. A record without a value forgets what its key names. A kind or a
version that we do not know stops the loading: whoever skips a record holds another state than its log.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.model.names import NO_TIMESTAMP
from headrace.wire.messages import group_records as group
from headrace.wire.messages import transaction_records as transaction
from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from headrace.wire.primitives import Buffer


_SHORT: Final = Struct(">h")
_SHORTS: Final = Struct(">hh")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_OFFSET_VALUE: Final = Struct(">hqih")  # version, offset, leader epoch, size of the metadata


class LogRecord(NamedTuple):
    """A key and a value of `wire.messages.group_records` or `transaction_records`; no value forgets the key."""

    key: Any
    value: Any | None


class UnreadableRecord(Exception):
    """A coordinator's log holds something that this version of the program cannot read."""


class _Kind(NamedTuple):
    key: Any
    value: Any
    written_version: int
    """Of the value. Not always the newest: it is what Kafka writes."""


Kinds = dict[int, _Kind]
"""The records of one coordinator's log, by the number that their keys begin with."""

GROUP_KINDS: Final = {
    1: _Kind(group.OffsetCommitKey, group.OffsetCommitValue, 3),
    2: _Kind(group.GroupMetadataKey, group.GroupMetadataValue, 3),
    3: _Kind(group.ConsumerGroupMetadataKey, group.ConsumerGroupMetadataValue, 0),
    5: _Kind(group.ConsumerGroupMemberMetadataKey, group.ConsumerGroupMemberMetadataValue, 0),
    6: _Kind(group.ConsumerGroupTargetAssignmentMetadataKey, group.ConsumerGroupTargetAssignmentMetadataValue, 0),
    7: _Kind(group.ConsumerGroupTargetAssignmentMemberKey, group.ConsumerGroupTargetAssignmentMemberValue, 0),
    8: _Kind(group.ConsumerGroupCurrentMemberAssignmentKey, group.ConsumerGroupCurrentMemberAssignmentValue, 0),
}
TRANSACTION_KINDS: Final = {0: _Kind(transaction.TransactionLogKey, transaction.TransactionLogValue, 1)}

_KIND_OF_KEY: Final[dict[type, tuple[int, int]]] = {
    kind.key: (number, kind.written_version)
    for kinds in (GROUP_KINDS, TRANSACTION_KINDS)
    for number, kind in kinds.items()
}


def encode(record: LogRecord) -> tuple[bytes, bytes | None]:
    number, version = _KIND_OF_KEY[type(record.key)]
    key = Writer()
    key.int16(number)
    record.key.encode(key, number)
    if record.value is None:
        return bytes(key.buffer), None
    if isinstance(record.value, group.OffsetCommitValue) and record.value.expire_timestamp != NO_TIMESTAMP:
        version = 1  # the one version that can say it, as Kafka does; whoever sets it has no leader epoch to say
    value = Writer()
    value.int16(version)
    record.value.encode(value, version)
    return bytes(key.buffer), bytes(value.buffer)


def decode(kinds: Kinds, key: Buffer, value: Buffer | None) -> LogRecord:
    """`kinds` is GROUP_KINDS or TRANSACTION_KINDS. Raises UnreadableRecord."""
    if kinds is GROUP_KINDS and value is not None:
        offset = _decode_plain_offset(key, value)
        if offset is not None:
            return offset
    try:
        reader = Reader(key)
        number = reader.int16()
        kind = kinds.get(number)
        if kind is None:
            raise UnreadableRecord(f"a record of kind {number}; known are {sorted(kinds)}: a newer version wrote it")
        return LogRecord(kind.key.decode(reader, number), None if value is None else _decode_value(kind.value, value))
    except (Malformed, ValueError) as problem:
        raise UnreadableRecord(f"a coordinator's record is damaged: {problem}") from problem


def _decode_plain_offset(key: Buffer, value: Buffer) -> LogRecord | None:
    """A committed offset as we write it, in a quarter of the time; None for everything else.

    Nearly all records of a long log are of this kind, and a new leader reads them all.
    """
    try:
        number, group_size = _SHORTS.unpack_from(key)
        topic_start = 6 + group_size
        topic_end = topic_start + _SHORT.unpack_from(key, topic_start - 2)[0]
        version, offset, leader_epoch, metadata_size = _OFFSET_VALUE.unpack_from(value)
        if number != 1 or version != 3 or topic_end + 4 != len(key) or metadata_size + 24 != len(value):
            return None
        if group_size < 0 or topic_end < topic_start:
            return None
        return LogRecord(
            group.OffsetCommitKey(
                str(key[4 : topic_start - 2], "utf-8"),
                str(key[topic_start:topic_end], "utf-8"),
                _INT.unpack_from(key, topic_end)[0],
            ),
            group.OffsetCommitValue(
                offset,
                leader_epoch,
                str(value[16 : 16 + metadata_size], "utf-8") if metadata_size else "",
                _LONG.unpack_from(value, 16 + metadata_size)[0],
            ),
        )
    except (StructError, UnicodeDecodeError):
        return None


def _decode_value(kind: Any, value: Buffer) -> Any:
    reader = Reader(value)
    version = reader.int16()
    first, last = kind.VERSIONS
    if not first <= version <= last:
        raise UnreadableRecord(f"a {kind.__name__} of version {version}; known are {first} to {last}")
    return kind.decode(reader, version)
