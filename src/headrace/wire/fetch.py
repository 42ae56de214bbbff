"""The answer to Fetch (key 1): small byte strings around records that never enter Python.

Records are given as anything with a `size`, in practice a slice of a file, and come back in their place between the
byte strings. The connection sends the list in order; slices leave by `sendfile`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
SESSIONS_FROM = 7
LOG_START_FROM = 5
PREFERRED_REPLICA_FROM = 11


class Sized(Protocol):
    size: int


RecordsT = TypeVar("RecordsT", bound=Sized)


class FetchedPartition(NamedTuple, Generic[RecordsT]):
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: RecordsT | None = None
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each; None for read_uncommitted."""
    diverging: tuple[int, int] | None = None
    """For a follower whose log went another way: the latest epoch that both may have, and where it ends here."""
    may_have_gaps: bool = False
    """For a follower: the log was compacted at some time, so offsets that are missing in it are no damage."""


_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_NO_REPLICA = _INT32.pack(-1)
_EPOCH_END = Struct(">iqx")  # epoch, end offset, no tags
_DIVERGING_TAG = b"\x01\x00" + bytes([_EPOCH_END.size])  # one tagged field: number 0, and its size
_MAY_HAVE_GAPS_TAG = b"\x01\x90\x4e\x01\x01"  # one tagged field: number 10000, ours, of one byte: true


def encode_fetch_response(
    correlation_id: int,
    version: int,
    topics: Iterable[tuple[str | bytes, Sequence[FetchedPartition[RecordsT]]]],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
) -> list[bytes | RecordsT]:
    """A whole frame, length included, as chunks to be sent in order."""
    is_flexible = version >= FLEXIBLE_FROM
    topics = list(topics)
    head = bytearray(8)  # length and correlation id, filled in at the end
    if is_flexible:
        head.append(0)
    head += _INT32.pack(throttle_ms)
    if version >= SESSIONS_FROM:
        head += _INT16.pack(error_code) + _INT32.pack(session_id)
    head += _count(len(topics), is_flexible)

    chunks: list[bytes | RecordsT] = []
    pending = head
    for key, partitions in topics:
        pending += _topic_key(key, is_flexible)
        pending += _count(len(partitions), is_flexible)
        for partition in partitions:
            pending += _partition_fields(partition, version, is_flexible)
            if partition.records is not None and partition.records.size:
                chunks += (bytes(pending), partition.records)
                pending = bytearray()
            if is_flexible:
                pending += _tags(partition)
        if is_flexible:
            pending.append(0)
    if is_flexible:
        pending.append(0)
    if pending:
        chunks.append(bytes(pending))
    return _with_length(chunks, correlation_id)


def _with_length(chunks: list[bytes | RecordsT], correlation_id: int) -> list[bytes | RecordsT]:
    total = sum(len(chunk) if isinstance(chunk, bytes) else chunk.size for chunk in chunks)
    first = chunks[0]
    assert isinstance(first, bytes)
    chunks[0] = _INT32.pack(total - 4) + _INT32.pack(correlation_id) + first[8:]
    return chunks


def _topic_key(key: str | bytes, is_flexible: bool) -> bytes:
    if not isinstance(key, str):
        return bytes(key)
    raw = key.encode()
    return (_uvarint(len(raw) + 1) if is_flexible else _INT16.pack(len(raw))) + raw


def _partition_fields(partition: FetchedPartition[RecordsT], version: int, is_flexible: bool) -> bytes:
    """Everything of a partition up to and including the size of its records."""
    if version >= LOG_START_FROM:
        out = _PARTITION_V5.pack(*partition[:5])
    else:
        out = _PARTITION_V4.pack(*partition[:4])
    aborted = partition.aborted_transactions
    if aborted is None:
        out += b"\x00" if is_flexible else b"\xff\xff\xff\xff"
    else:
        out += _count(len(aborted), is_flexible)
        tags = b"\x00" if is_flexible else b""
        out += b"".join(_ABORTED.pack(*transaction) + tags for transaction in aborted)
    if version >= PREFERRED_REPLICA_FROM:
        out += _NO_REPLICA
    return out + _count(partition.records.size if partition.records is not None else 0, is_flexible)


def _tags(partition: FetchedPartition[RecordsT]) -> bytes:
    """What only followers are told, and never both at once: who diverges gets no records."""
    if partition.diverging is not None:
        return _DIVERGING_TAG + _EPOCH_END.pack(*partition.diverging)
    return _MAY_HAVE_GAPS_TAG if partition.may_have_gaps else b"\x00"


def _count(count: int, is_flexible: bool) -> bytes:
    return _uvarint(count + 1) if is_flexible else _INT32.pack(count)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
