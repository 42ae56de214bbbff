"""Compact a log step by step, as the node does it, without a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import Finished
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.files.cleaner_checkpoint import NOTHING_CLEAN, CleanerCheckpoint, store_cleaner_checkpoint
from headrace.storage.segments import replacement
from headrace.storage.segments.replacement import CleanedRun
from headrace.storage.settings import CompactionSettings
from headrace.wire.batches.records import Record, control_type, decode_records
from tests.unit.storage.small_logs import headers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.storage.log.partition_log import PartitionLog
    from headrace.wire.batches.header import BatchHeader

PLENTY = 1 << 20


class Held(NamedTuple):
    """A batch as a reader gets it."""

    header: BatchHeader
    records: list[Record]


def flush(log: PartitionLog) -> None:
    ticket = log.flushing.begin()
    if ticket is not None:
        ticket.sync(log.disk)
        log.flushing.finish(ticket)


def stable_offset(log: PartitionLog) -> int:
    """Everything flushed is committed here, so only open transactions hold compaction up."""
    log.producers.transactions.settle(log.flushed_offset)
    unstable = log.producers.transactions.first_unstable_offset
    return log.flushed_offset if unstable < 0 else min(unstable, log.flushed_offset)


def mark_gaps(log: PartitionLog) -> None:
    """As a follower does before it writes what its leader has compacted."""
    store_cleaner_checkpoint(log.disk, log.directory, NOTHING_CLEAN)
    log.cleaner_checkpoint = NOTHING_CLEAN


def compact(
    log: PartitionLog,
    *,
    now_ms: int,
    delete_retention_ms: int = 1000,
    key_map_bytes: int = PLENTY,
    stable: int | None = None,
) -> Finished | None:
    """One pass over all that may be cleaned, as the node does it; None if there is nothing."""
    settings = CompactionSettings(min_dirty_ratio=0, delete_retention_ms=delete_retention_ms)
    found = dirtiness_of(log, settings, stable_offset(log) if stable is None else stable, now_ms)
    if found.end_offset <= log.segments[0].base_offset:
        return None
    disk, directory = log.disk, log.directory
    finished = None
    for event in clean(disk, cleaning_job(log, settings, found, now_ms=now_ms, key_map_bytes=key_map_bytes)):
        if isinstance(event, CleanedRun):
            if log.cleaner_checkpoint is None:
                mark_gaps(log)
            replacement.promise(disk, directory, event)
            log.compaction.replace(event)
            replacement.conclude(disk, directory, event)
        elif isinstance(event, Finished):
            finished = event
    assert finished is not None
    mark = CleanerCheckpoint(finished.clean_end_offset, finished.latest_horizon_ms)
    store_cleaner_checkpoint(disk, directory, mark)
    log.cleaner_checkpoint = mark
    return finished


def held(log: PartitionLog, offset: int | None = None, end_offset: int | None = None) -> list[Held]:
    """Every batch from `offset` on."""
    found: list[Held] = []
    place = log.start_offset if offset is None else offset
    end = log.next_offset if end_offset is None else end_offset
    while place < end:
        piece = log.read(place, 1 << 20, end, at_least_one=True)
        if piece is None:
            break
        run = piece.read()
        piece.release()
        position = 0
        for header in headers_in(run):
            batch = run[position : position + header.size]
            found.append(Held(header, list(decode_records(batch, inflate_max=1 << 20))))
            position += header.size
            place = header.next_offset
    return found


def read_committed(log: PartitionLog, offset: int, end_offset: int) -> tuple[list[Record], int]:
    """What a client shows of committed records, decided as clients do it; and where it would go on."""
    aborted = sorted(
        (txn for txn in log.transaction_indexes.aborted_between(offset, end_offset)), key=lambda txn: txn.first_offset
    )
    shown: list[Record] = []
    silenced: set[int] = set()
    batches = held(log, offset, end_offset)
    for header, records in batches:
        while aborted and aborted[0].first_offset <= header.last_offset:
            silenced.add(aborted.pop(0).producer_id)
        if header.is_control:
            if control_type(records[0]).name == "ABORT":
                silenced.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in silenced):
            shown += [record for record in records if record.offset >= offset]
    return shown, batches[-1].header.next_offset if batches else offset


def values_of(records: Sequence[Record]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values
