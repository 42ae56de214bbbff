"""The indexes of aborted transactions when a log is opened: which entries are kept, and which are read from batches."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.storage.segments.index_files import BadIndex
from headrace.storage.segments.producer_snapshots import replay_aborted

if TYPE_CHECKING:
    from headrace.runtime.disk import File
    from headrace.storage.recovery.found_files import FoundFiles
    from headrace.storage.recovery.job import RecoveryJob
    from headrace.storage.segments.producer_snapshots import Replayed
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.transaction_index import AbortedTransaction


class RecoveredAborts:
    def __init__(self, job: RecoveryJob, files: FoundFiles) -> None:
        self._job = job
        self._files = files
        self._from_offset = job.recovery_point
        """Markers from here on are looked for in the batches, not in the indexes."""

    def trust(self, segment: Segment, file: File) -> None:
        """Keep what the index says of markers below the recovery point. Of the others the batches tell.

        What a crash has torn, or something else has damaged, is not trusted at all: the batches tell everything then.
        """
        if segment.aborted.entries is not None:
            return
        try:
            aborted = segment.aborted.load(self._job.disk)
            segment.aborted.cut(self._job.disk, self._job.recovery_point)
            if len(aborted) and not self._has_marker(segment, file, aborted[-1]):
                raise BadIndex
        except BadIndex:
            self._job.report.rebuilt_indexes += 1
            segment.aborted.forget()
            self._from_offset = min(self._from_offset, segment.base_offset)

    def _has_marker(self, segment: Segment, file: File, aborted: AbortedTransaction) -> bool:
        try:
            found = segment.locate(file, aborted.last_offset)
        except BadIndex:
            self._job.report.rebuilt_indexes += 1
            segment.rebuild_indexes(file, self._job.settings.index_interval_bytes)
            found = segment.locate(file, aborted.last_offset)
        if found is None:
            return False
        header = found[1]
        return header.is_control and (header.base_offset, header.producer_id) == (
            aborted.last_offset,
            aborted.producer_id,
        )

    def note(self, replayed: Replayed, next_offset: int) -> None:
        """Fill the indexes from the recovery point on. The replay began at a snapshot, which may be later than that."""
        disk, directory, segments = self._job.disk, self._job.directory, self._files.segments
        first_offset = max(self._from_offset, segments[0].base_offset)
        end_offset = min(max(replayed.snapshot_offset, 0), next_offset)
        earlier = replay_aborted(disk, directory, self._files.names, segments, first_offset, end_offset)
        for ended in (*earlier, *replayed.aborted):
            if ended.marker_offset >= first_offset:
                number = bisect_right(segments, ended.marker_offset, key=lambda segment: segment.base_offset) - 1
                segments[number].aborted.load(disk).add(ended)
