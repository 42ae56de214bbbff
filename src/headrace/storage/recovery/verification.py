"""Check what was written to a log since its recovery point, and find out where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.files.damage import DamagedLog
from headrace.storage.integrity.verify import BadBatch, checked_batches
from headrace.storage.recovery.torn_end import cut_torn_end
from headrace.storage.segments.index_files import BadIndex
from headrace.storage.segments.rolling import is_too_wide
from headrace.storage.segments.scan import header_at, headers_from

if TYPE_CHECKING:
    from headrace.runtime.disk import File
    from headrace.storage.recovery.aborted import RecoveredAborts
    from headrace.storage.recovery.found_files import FoundFiles
    from headrace.storage.recovery.job import RecoveryJob
    from headrace.storage.segments.segment import Segment


class Verification:
    def __init__(self, job: RecoveryJob, files: FoundFiles, aborts: RecoveredAborts) -> None:
        self._job = job
        self._files = files
        self._aborts = aborts

    def run(self) -> int:
        """Check what was written since the recovery point, cut what is torn, and return where the log ends."""
        segments = self._files.segments
        next_offset = segments[0].base_offset
        for number, segment in enumerate(segments):
            follower = segments[number + 1] if number + 1 < len(segments) else None
            next_offset, bad = self._check(segment, follower)
            if bad is None and follower is not None and not self._joins(next_offset, follower):
                problem = f"the next segment begins at offset {follower.base_offset}, expected {next_offset}"
                bad = BadBatch(segment.size, next_offset, problem, is_cut_short=follower.base_offset > next_offset)
            if bad is not None:
                cut_torn_end(self._job, self._files, number, bad)
                break
        if next_offset < self._job.recovery_point and self._job.start_offset < self._job.recovery_point:
            last = segments[-1]
            problem = f"the log ends here, expected was everything up to offset {self._job.recovery_point}"
            raise DamagedLog(last.log_path, last.size, next_offset, problem)
        if next_offset < self._job.start_offset:
            self._files.begin_empty()
            return self._job.start_offset
        self._make_ready(segments[-1])
        return next_offset

    def _joins(self, next_offset: int, follower: Segment) -> bool:
        """Whether nothing is missing between two segments.

        Compaction leaves every segment its end, so that gaps lie inside. One at the joint, unless it is too wide for an
        index, is what a crash took from the end of the first.
        """
        if follower.base_offset <= next_offset or not self._files.may_have_gaps:
            return follower.base_offset == next_offset
        file = self._job.disk.open(follower.log_path)
        try:
            first = header_at(file, 0, follower.size)
        finally:
            file.close()
        return first is not None and is_too_wide(first, next_offset)

    def _check(self, segment: Segment, follower: Segment | None) -> tuple[int, BadBatch | None]:
        """Where the good part of a segment ends, and what follows it, if that is bad."""
        is_below = follower is not None and follower.base_offset <= self._job.recovery_point
        if is_below and not self._files.must_read_epochs:
            try:
                return self._end_of(segment), None
            except BadIndex:
                self._job.report.rebuilt_indexes += 1
        file = self._job.disk.open(segment.log_path)
        try:
            file.forget_cached()  # the last process may have ended because a sync failed: memory proves nothing
            next_offset, bad = self._verify_segment(segment, file)
            if not is_below:
                self._aborts.trust(segment, file)
        finally:
            file.close()
        segment.synced_size = segment.size if is_below else 0
        if follower is None:
            segment.save_indexes(self._job.disk)
        else:
            segment.seal(self._job.disk)
            segment.unload_index()
        return next_offset, bad

    def _verify_segment(self, segment: Segment, file: File) -> tuple[int, BadBatch | None]:
        position, next_offset = self._resume(segment, file)
        end, segment.size = segment.size, position
        report = self._job.report
        batches = checked_batches(
            file,
            position,
            end,
            next_offset,
            crc_from_offset=self._job.recovery_point,
            may_have_gaps=self._files.may_have_gaps,
        )
        for found in batches:
            if isinstance(found, BadBatch):
                return next_offset, found
            header = found.header
            segment.note((header,), self._job.settings.index_interval_bytes)
            self._files.epochs.note(header.leader_epoch, next_offset)  # as the log does it, also after a gap
            next_offset = header.next_offset
            if header.base_offset >= self._job.recovery_point:
                report.verified_batches += 1
                report.verified_bytes += header.size
        return next_offset, None

    def _resume(self, segment: Segment, file: File) -> tuple[int, int]:
        """Position and offset to verify from: the last index entry below the recovery point, or the beginning."""
        if self._files.must_read_epochs or self._job.recovery_point <= segment.base_offset:
            segment.begin_indexes()
            return 0, segment.base_offset
        try:
            segment.load_index(self._job.disk)
            segment.load_time_index(self._job.disk)
            segment.cut_indexes(self._job.recovery_point)
            segment.trust_time_index(file)
            header = header_at(file, segment.indexed_position, segment.size)
            if header is None:
                raise BadIndex
        except BadIndex:
            self._job.report.rebuilt_indexes += 1
            segment.begin_indexes()
            return 0, segment.base_offset
        self._read_first_timestamp(segment, file)
        return segment.indexed_position, header.base_offset

    def _end_of(self, segment: Segment) -> int:
        """Where a sealed segment ends, found from the last entry of its index."""
        relative_offset, position = segment.read_last_entry(self._job.disk)
        file = self._job.disk.open(segment.log_path)
        try:
            if position:
                header = header_at(file, position, segment.size)
                if header is None or header.last_offset != segment.base_offset + relative_offset:
                    raise BadIndex
            next_offset = segment.base_offset
            for _, header in headers_from(file, segment.log_path, position, segment.size):
                next_offset = header.next_offset
            return next_offset
        finally:
            file.close()

    def _make_ready(self, segment: Segment) -> None:
        """The last segment will be written to: it needs its indexes in memory."""
        segment.is_sealed = False
        if segment.index is not None and segment.time_index is not None and segment.aborted.entries is not None:
            return
        file = self._job.disk.open(segment.log_path)
        try:
            segment.rebuild_indexes(file, self._job.settings.index_interval_bytes)
            self._aborts.trust(segment, file)
        finally:
            file.close()

    def _read_first_timestamp(self, segment: Segment, file: File) -> None:
        if segment.size:
            _, first = next(headers_from(file, segment.log_path, 0, segment.size))
            segment.first_timestamp = first.max_timestamp
