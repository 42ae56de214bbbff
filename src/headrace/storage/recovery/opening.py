"""Open a log that is on disk. Everything here blocks and runs in a thread; it touches no handle of the loop.

Every batch from the recovery point on is verified; below it only the joints of the segments are looked at. After a
clean shutdown the recovery point is the end, so that opening takes a few small reads. What was flushed before a crash
is whole; what was not may have lost its end, or sectors in its middle. So recovery cuts what is torn, keeps a copy
where whole batches follow, and refuses to touch damage that no crash can explain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.replication.producers import ProducerStates
from headrace.storage.files import layout
from headrace.storage.files.cleaner_checkpoint import store_cleaner_checkpoint
from headrace.storage.files.leader_epochs import LeaderEpochs
from headrace.storage.files.read_faults import reads_log
from headrace.storage.log.log_state import LoadedLog
from headrace.storage.log.partition_log import PartitionLog
from headrace.storage.recovery.aborted import RecoveredAborts
from headrace.storage.recovery.found_files import FoundFiles, new_segment
from headrace.storage.recovery.job import RecoveryJob, RecoveryReport
from headrace.storage.recovery.verification import Verification
from headrace.storage.segments.producer_snapshots import (
    NO_SNAPSHOT,
    drop_snapshots_beyond,
    prune_snapshots,
    replay_producers,
)

if TYPE_CHECKING:
    from headrace.model.names import LogId
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.storage.settings import LogSettings


def create_log(
    log_id: LogId, topic: str, cache: SegmentCache, settings: LogSettings, *, start_offset: int = 0
) -> PartitionLog:
    """A new, empty log."""
    disk = cache.disk
    directory = layout.directory_of(log_id)
    disk.make_directory(directory)
    disk.write_file(f"{directory}/{layout.NAME}", f"topic: {topic}\npartition: {log_id.partition}\n".encode())
    segment = new_segment(disk, directory, start_offset)
    return PartitionLog(
        log_id,
        cache,
        settings,
        LoadedLog(
            [segment],
            LeaderEpochs(),
            ProducerStates(),
            NO_SNAPSHOT,
            start_offset=start_offset,
            next_offset=start_offset,
            flushed_offset=start_offset,
        ),
    )


@reads_log
def open_log(
    log_id: LogId,
    cache: SegmentCache,
    settings: LogSettings,
    *,
    recovery_point: int = 0,
    start_offset: int = 0,
    is_synced: bool = False,
) -> tuple[PartitionLog, RecoveryReport]:
    """The log as it is on disk. DamagedLog if it holds damage that must not be cut away.

    `is_synced` says that the disk was synced since the last process wrote to it. Otherwise what is found is whole, but
    may live in memory only, and the log is dirty until its first flush.
    """
    disk, directory = cache.disk, layout.directory_of(log_id)
    job = RecoveryJob(disk, directory, settings, recovery_point, start_offset, RecoveryReport(log_id))
    files = FoundFiles(job)
    aborts = RecoveredAborts(job, files)
    next_offset = Verification(job, files, aborts).run()
    segments, epochs = files.segments, files.epochs
    if is_synced:
        for segment in segments:
            segment.synced_size = segment.size
    start_offset = max(start_offset, segments[0].base_offset)
    epochs.truncate_end(next_offset)
    epochs.truncate_start(start_offset)
    drop_snapshots_beyond(disk, directory, files.names, next_offset)
    replayed = replay_producers(disk, directory, files.names, segments, next_offset)
    aborts.note(replayed, next_offset)
    prune_snapshots(disk, directory, files.names, segments)
    checkpoint = files.cleaner_checkpoint
    if checkpoint is not None and checkpoint.clean_end_offset > next_offset:
        checkpoint = checkpoint._replace(clean_end_offset=next_offset)
        store_cleaner_checkpoint(disk, directory, checkpoint)
    log = PartitionLog(
        log_id,
        cache,
        settings,
        LoadedLog(
            segments,
            epochs,
            replayed.producers,
            replayed.snapshot_offset,
            start_offset=start_offset,
            next_offset=next_offset,
            flushed_offset=next_offset if is_synced else min(recovery_point, next_offset),
            cleaner_checkpoint=checkpoint,
        ),
    )
    return log, job.report
