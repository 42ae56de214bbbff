"""From a log to the job of cleaning it: what the cleaner cannot see in the files that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.compaction.choice import Dirtiness, assess
from headrace.storage.compaction.job import CleaningJob, Source
from headrace.storage.compaction.sieve import AbortedSpan, LastEntry
from headrace.storage.files.cleaner_checkpoint import NOTHING_CLEAN
from headrace.storage.settings import NO_LAG_LIMIT, CompactionSettings

if TYPE_CHECKING:
    from headrace.storage.log.partition_log import PartitionLog


def dirtiness_of(log: PartitionLog, settings: CompactionSettings, stable_offset: int, now_ms: int) -> Dirtiness:
    """What may be cleaned of a log below `stable_offset`, where every transaction is decided and committed."""
    checkpoint = log.cleaner_checkpoint or NOTHING_CLEAN
    needs_times = settings.min_lag_ms > 0 or settings.max_lag_ms < NO_LAG_LIMIT
    return assess(
        log.compaction.sealed_segments(times_from=checkpoint.clean_end_offset if needs_times else None),
        checkpoint,
        settings,
        start_offset=log.start_offset,
        safe_offset=min(stable_offset, log.flushed_offset),
        now_ms=now_ms,
    )


def cleaning_job(
    log: PartitionLog, settings: CompactionSettings, dirtiness: Dirtiness, *, now_ms: int, key_map_bytes: int
) -> CleaningJob:
    sources = tuple(
        Source(segment.base_offset, segment.size)
        for segment in log.compaction.sealed_segments()
        if segment.end_offset <= dirtiness.end_offset
    )
    aborted = log.transaction_indexes.aborted_between(sources[0].base_offset, dirtiness.end_offset)
    return CleaningJob(
        directory=log.directory,
        sources=sources,
        first_dirty_offset=dirtiness.first_dirty_offset,
        end_offset=dirtiness.end_offset,
        aborted=tuple(AbortedSpan(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted),
        last_entries={
            producer.producer_id: LastEntry(producer.last_offset, producer.epoch)
            for producer in log.producers.entries()
        },
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        segment_bytes=log.settings.segment_bytes,
        index_interval_bytes=log.settings.index_interval_bytes,
        key_map_bytes=key_map_bytes,
    )
