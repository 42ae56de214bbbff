"""Truncating a log, in three steps, so that a large segment or a busy disk holds nobody up.

1. `TruncationSearch.find`, in a thread: where the log will end, who its producers were there, and what its last segment
   will be. That reads the headers of a whole segment, or of more.
2. `PartitionLog.apply_truncation`, on the loop: from this moment on the log ends there. Its files are still longer, but
   nobody reads beyond what the log says.
3. `TruncatedFiles.write`, in a thread: the files follow, and that is on the device when it returns. Else a power cut
   could mix the bytes that were cut off with those that are written in their place.

Nothing may be written to the log from the first step to the end of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from headrace.model.errors import DiskFailure
from headrace.storage.files import layout
from headrace.storage.files.disk_errors import NO_DESCRIPTORS, NO_SPACE, no_descriptor
from headrace.storage.files.read_faults import reads_log
from headrace.storage.segments.index_files import NO_FILE, BadIndex, cut_file
from headrace.storage.segments.producer_snapshots import (
    drop_snapshots_beyond,
    replay_aborted,
    replay_producers,
    save_snapshot,
)
from headrace.storage.segments.scan import headers_from
from headrace.storage.segments.segment import REBUILD_HOP_BYTES, Segment
from headrace.storage.segments.transaction_index import ABORTED_ENTRY_BYTES, AbortedIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.replication.producers import ProducerStates
    from headrace.runtime.disk import Disk, File
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState


class Last(NamedTuple):
    """The segment in which the log will end."""

    segment: Segment
    remade: Segment
    """What it will be then: its size and its indexes. Of aborted transactions it may still have too many."""


class FoundTruncation(NamedTuple):
    search: TruncationSearch
    end_offset: int
    last: Last | None
    """None if nothing of the log stays."""
    producers: ProducerStates


@dataclass(frozen=True, slots=True)
class TruncationSearch:
    """Everything from `offset` on is to go. Taken on the loop; works on files that it opens itself.

    Compaction and retention go on meanwhile. Whoever sees that the log is another one by now has to search again.
    """

    disk: Disk
    directory: str
    segments: tuple[Segment, ...]
    start_offset: int
    next_offset: int
    offset: int
    may_have_gaps: bool
    index_interval_bytes: int

    @classmethod
    def of(cls, log: LogState, segments: LogSegments, offset: int) -> Self:
        """Of a log that ends beyond `offset`."""
        return cls(
            segments.disk,
            log.directory,
            tuple(segments.segments),
            log.start_offset,
            log.next_offset,
            offset,
            log.may_have_gaps,
            log.settings.index_interval_bytes,
        )

    def find(self) -> FoundTruncation:
        """Blocking; changes nothing of the log. DamagedLog if it cannot be read, Refusal if it cannot be opened now."""
        try:
            return reads_log(self._find)()
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise no_descriptor(self.directory) from error
            raise DiskFailure(f"the disk refused to read {self.directory}: {error}") from error

    def _find(self) -> FoundTruncation:
        names = self.disk.list(self.directory)
        last: Last | None
        end_offset, last = self._find_last()
        if end_offset <= self.start_offset:
            end_offset, last = min(self.offset, self.start_offset), None
        else:
            self._find_aborted(last, end_offset, names)
        replayed = replay_producers(self.disk, self.directory, names, self.segments, end_offset)
        return FoundTruncation(self, end_offset, last, replayed.producers)

    def _find_last(self) -> tuple[int, Last]:
        """Batches are cut whole. After a gap the log ends with the batch before it: a start knows of no end but that,
        and our leader may still have what is missing here."""
        at = next(segment for segment in reversed(self.segments) if self._begins_by(segment, self.offset))
        remade, batches_end, cut_base = self._keep(at, self.offset)
        end_offset = self.offset if cut_base is None else min(self.offset, cut_base)
        if self.may_have_gaps:
            end_offset = batches_end
        if end_offset > at.base_offset or at is self.segments[0]:
            return end_offset, Last(at, remade)
        before = self.segments[self.segments.index(at) - 1]
        return end_offset, Last(before, self._keep(before, end_offset)[0])

    def _begins_by(self, segment: Segment, offset: int) -> bool:
        return segment.base_offset <= offset or segment is self.segments[0]

    def _keep(self, segment: Segment, offset: int) -> tuple[Segment, int, int | None]:
        """What a segment is without the batches that end at or after `offset`; where those that stay end; and where the
        first that goes begins, if one does."""
        kept = Segment("", segment.base_offset)
        kept.begin_indexes()
        end_offset = segment.base_offset
        file = self.disk.open(segment.log_path)
        try:
            for _, header in headers_from(file, segment.log_path, 0, segment.size, REBUILD_HOP_BYTES):
                if header.last_offset >= offset:
                    return kept, end_offset, header.base_offset
                kept.note((header,), self.index_interval_bytes)
                end_offset = header.next_offset
        finally:
            file.close()
        return kept, end_offset, None

    def _find_aborted(self, last: Last, end_offset: int, names: Sequence[str]) -> None:
        """The index of its aborted transactions, in case that it is not in memory, or leaves it meanwhile."""
        segment, remade = last
        aborted = segment.aborted.entries  # once: the loop may unload it at any moment
        if aborted is not None:
            remade.aborted.entries, remade.aborted.saved = AbortedIndex(aborted.encode()), segment.aborted.saved
            return
        stored = Segment(self.directory, segment.base_offset)
        stored.aborted.entries = None
        try:
            remade.aborted.entries = stored.aborted.load(self.disk)
            remade.aborted.saved = stored.aborted.saved
        except BadIndex:  # the log is the truth
            remade.aborted.entries, remade.aborted.saved = AbortedIndex(), NO_FILE
            until_last = self.segments[: self.segments.index(segment) + 1]
            where = (self.disk, self.directory, names, until_last)
            for ended in replay_aborted(*where, segment.base_offset, end_offset):
                remade.aborted.entries.add(ended)


@dataclass(slots=True)
class TruncatedFiles:
    """What is left to do once the log ends where it was cut."""

    found: FoundTruncation
    dropped: Sequence[str]
    """Files of segments that went as a whole."""
    file: File | None
    """Of the last segment, leased; None if there is none yet."""
    active: Segment
    is_aborted_too_long: bool
    has_snapshot: bool = False
    is_written: bool = False

    def write(self) -> None:
        """Blocking."""
        disk, directory = self.found.search.disk, self.found.search.directory
        try:
            drop_snapshots_beyond(disk, directory, disk.list(directory), self.found.end_offset)
            for path in self.dropped:
                disk.remove(path)
            if self.is_aborted_too_long:
                cut_file(disk, self.active.aborted.path, self.active.aborted.saved * ABORTED_ENTRY_BYTES)
            self._end_log(disk)
            self._save_producers(disk, directory)
            disk.sync_directory(directory)
        except OSError as error:
            raise DiskFailure(f"the disk refused to cut {directory}: {error}") from error
        self.is_written = True

    def _end_log(self, disk: Disk) -> None:
        file = self.file or self._begin_again(disk)
        try:
            if file.size() > self.active.size:
                file.truncate(self.active.size)
            file.sync()
        finally:
            if self.file is None:
                file.close()

    def _begin_again(self, disk: Disk) -> File:
        try:
            return disk.open(self.active.log_path, create=True)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            problem = "is cut, and cannot begin again: the disk is full; free some space, then start the node again"
            raise DiskFailure(f"{self.found.search.directory} {problem}") from error

    def _save_producers(self, disk: Disk, directory: str) -> None:
        """A full disk is no trouble: an older snapshot has to do."""
        end_offset = self.found.end_offset
        if not save_snapshot(disk, directory, end_offset, self.found.producers):
            return
        snapshot = disk.open(layout.stem(directory, end_offset) + layout.SNAPSHOT)
        try:
            snapshot.sync()
        finally:
            snapshot.close()
        self.has_snapshot = True
