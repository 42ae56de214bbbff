"""The end of a log from a bad batch on: cut off if a crash explains it, and not touched if nothing does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.storage.files.damage import DamagedLog
from headrace.storage.integrity.cut_copies import copy_bytes
from headrace.storage.integrity.verify import find_valid_batch, is_lost_write
from headrace.storage.recovery.kept_copies import keep_copy

if TYPE_CHECKING:
    from headrace.runtime.disk import File
    from headrace.storage.integrity.verify import BadBatch
    from headrace.storage.recovery.found_files import FoundFiles
    from headrace.storage.recovery.job import RecoveryJob
    from headrace.storage.segments.segment import Segment

OFFSET_BYTES = 8  # a batch begins with its offset


def cut_torn_end(job: RecoveryJob, files: FoundFiles, number: int, bad: BadBatch) -> None:
    """Cut a log from the bad batch in its segment of that number on, if a crash explains it; DamagedLog otherwise."""
    segment = files.segments[number]
    # What lies below the log's start was deleted, and may be there in part.
    if max(bad.offset, job.start_offset) < job.recovery_point:
        raise DamagedLog(segment.log_path, bad.position, bad.offset, f"{bad.problem}, below the recovery point")
    file = job.disk.open(segment.log_path)
    try:
        end = file.size()
        valid_at = find_valid_batch(file, bad.position, end, segment.base_offset)
        has_followers = valid_at is None and any(_has_valid(job, later) for later in files.segments[number + 1 :])
        if valid_at is not None or has_followers:
            # The bad batch itself may be valid but for its offset, which its CRC does not cover.
            bad_end = end if valid_at is None else max(valid_at, bad.position + OFFSET_BYTES)
            is_missing = valid_at is None and bad.is_cut_short
            if not is_missing and not is_lost_write(file, bad.position, bad_end, bad.offset):
                where = "in later segments" if valid_at is None else f"from byte {valid_at} on"
                raise DamagedLog(
                    segment.log_path, bad.position, bad.offset, f"{bad.problem}, and whole batches follow {where}"
                )
        _cut(job, files, number, file, bad, is_kept=valid_at is not None or has_followers)
    finally:
        file.close()


def _has_valid(job: RecoveryJob, segment: Segment) -> bool:
    file = job.disk.open(segment.log_path)
    try:
        return find_valid_batch(file, 0, segment.size, segment.base_offset) is not None
    finally:
        file.close()


def _cut(job: RecoveryJob, files: FoundFiles, number: int, file: File, bad: BadBatch, *, is_kept: bool) -> None:
    """Remove everything from the bad batch on. Whole batches among it are kept beside the log, out of its way."""
    segment, report = files.segments[number], job.report
    followers = files.segments[number + 1 :]
    cut_bytes = file.size() - bad.position
    if is_kept and cut_bytes:
        keep_copy(job, segment.stem, partial(copy_bytes, job.disk, file, bad.position))
    file.truncate(bad.position)
    file.sync()  # or the removed bytes could show up again among those that are written in their place
    for follower in followers:
        cut_bytes += follower.size
        if is_kept and follower.size:
            keep_copy(job, follower.stem, partial(job.disk.rename, follower.log_path))
        files.remove(follower)
    job.disk.sync_directory(job.directory)
    del files.segments[number + 1 :]
    report.cut_bytes += cut_bytes
    kept = f"; what was removed is kept in {', '.join(report.cut_kept_in)}" if report.cut_kept_in else ""
    report.notes.append(
        f"{segment.log_path} was cut at byte {bad.position} (offset {bad.offset}): {bad.problem}. "
        f"{cut_bytes} bytes that were never flushed are gone{kept}"
    )
