"""Transaction markers: control batches that a broker writes where a transaction ends, in Kafka's format.

A marker is a batch of one record. Its key says how the transaction ended (int16 version, int16 type), its value which
coordinator said so (int16 version, int32 coordinator epoch).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.records import ControlType, control_type, decode_records, encode_batch

if TYPE_CHECKING:
    from headrace.wire.batches.header import Buffer
    from headrace.wire.batches.records import Record

VERSION: Final = 0  # of key and value alike
MARKER_INFLATE_MAX: Final = 1 << 10  # a marker is smaller than a hundred bytes, and nobody compresses one

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class Marker(NamedTuple):
    is_commit: bool
    """False for an abort."""
    coordinator_epoch: int
    """Which leadership of the coordinator's log decided it."""


def encode_marker(producer_id: int, producer_epoch: int, marker: Marker, timestamp_ms: int) -> bytearray:
    """The batch that ends a producer's transaction. Its offset is given when it is appended."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    key = _KEY.pack(VERSION, kind)
    value = _VALUE.pack(VERSION, marker.coordinator_epoch)
    return encode_batch(
        [(timestamp_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def decode_marker(batch: Buffer) -> Marker:
    """What a control batch says. CorruptBatch if it is no transaction's marker."""
    record = next(decode_records(batch, inflate_max=MARKER_INFLATE_MAX), None)
    if record is None:
        raise CorruptBatch("a control batch has no record; expected is one")
    is_commit = is_commit_marker(record)
    try:
        # A later version may say more, after what this one says.
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except StructError as damage:
        raise CorruptBatch(f"the control record at {record.offset} does not name its coordinator's epoch") from damage
    return Marker(is_commit, coordinator_epoch)


def is_commit_marker(record: Record) -> bool:
    """True if this record of a control batch commits, False if it aborts."""
    return control_type(record) is ControlType.COMMIT
