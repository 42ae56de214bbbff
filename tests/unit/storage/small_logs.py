"""Logs and batches that are small enough to reason about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import LogId, TopicId
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import BatchHeader, Codec, place, read_header
from headrace.wire.batches.markers import encode_marker
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.wire.batches.markers import Marker

LOG_ID = LogId(TopicId(bytes(range(16))), 3)
DIRECTORY = f"topics/{LOG_ID}"
SETTINGS = LogSettings(segment_bytes=1000, index_interval_bytes=150, retention_ms=None)
FIRST_MS = 1_700_000_000_000


def batch_at(
    base_offset: int,
    *,
    count: int = 1,
    value_bytes: int = 20,
    timestamps: Sequence[int] | None = None,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    append_time: int | None = None,
    is_transactional: bool = False,
) -> bytearray:
    times = timestamps or [FIRST_MS + base_offset + number for number in range(count)]
    return encode_batch(
        [(time, b"k", b"v" * value_bytes, ()) for time in times],
        base_offset=base_offset,
        codec=codec,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        log_append_time=append_time,
        is_transactional=is_transactional,
    )


def marker_at(offset: int, producer_id: int, marker: Marker, *, epoch: int = 0) -> bytearray:
    batch = encode_marker(producer_id, 0, marker, FIRST_MS + offset)
    place(batch, read_header(batch), offset, epoch)
    return batch


def append(log: PartitionLog, *batches: bytearray) -> None:
    log.append(batches, [read_header(batch) for batch in batches])


def new_log(disk: Disk, settings: LogSettings = SETTINGS) -> PartitionLog:
    return create_log(LOG_ID, "orders", SegmentCache(disk), settings)


def log_of(disk: Disk, batch_count: int, settings: LogSettings = SETTINGS, **kind: int) -> PartitionLog:
    """A log of single-record batches."""
    log = new_log(disk, settings)
    for offset in range(batch_count):
        append(log, batch_at(offset, **kind))
    return log


def reopened(log: PartitionLog, *, recovery_point: int | None = None, is_clean: bool = True) -> PartitionLog:
    """The same log after a shutdown, clean or by a signal."""
    point = log.next_offset if recovery_point is None else recovery_point
    log.close(is_clean=is_clean)
    opened, _ = open_log(
        LOG_ID,
        SegmentCache(log.disk),
        log.settings,
        recovery_point=point,
        start_offset=log.start_offset,
        is_synced=True,
    )
    return opened


def end_if_cut(log: PartitionLog, offset: int) -> int:
    """Where the log would end after `truncate(offset)`."""
    search = log.begin_truncation(offset)
    return log.next_offset if search is None else search.find().end_offset


def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, end_offset: int | None = None) -> list[BatchHeader]:
    """The batches of one read."""
    end = log.next_offset if end_offset is None else end_offset
    piece = log.read(offset, max_bytes, end, at_least_one=True)
    if piece is None:
        return []
    try:
        return headers_in(piece.read())
    finally:
        piece.release()


def read_all(log: PartitionLog) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    offset = log.start_offset
    while batches := read(log, offset):
        found += batches
        offset = batches[-1].next_offset
    return found


def headers_in(run: bytes) -> list[BatchHeader]:
    headers: list[BatchHeader] = []
    position = 0
    while position < len(run):
        headers.append(read_header(run, position))
        position += headers[-1].size
    assert position == len(run), "a read ends inside a batch"
    return headers
