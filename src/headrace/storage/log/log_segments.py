"""A log's segments, from the oldest to the one that is written to, and what happens to their files."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.storage.files.disk_errors import NO_SPACE
from headrace.storage.files.side_files import SideFile
from headrace.storage.log.repairs import SyncCut
from headrace.storage.segments.producer_snapshots import replay_aborted
from headrace.storage.segments.segment import BadIndex, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk, File
    from headrace.storage.log.repairs import Errand
    from headrace.storage.segments.segment_cache import Handles
    from headrace.storage.segments.transaction_index import AbortedIndex
    from headrace.wire.batches.header import Buffer


class Chain:
    """`active` is always the last of `segments`; the others are sealed."""

    __slots__ = (
        "_directory",
        "_disk",
        "_handles",
        "_rolled",
        "_unsaved_aborts",
        "active",
        "cuts_under_way",
        "may_have_aborts",
        "on_lost_aborted",
        "run_beside",
        "segments",
    )

    def __init__(self, directory: str, handles: Handles, segments: Sequence[Segment]) -> None:
        self.segments = list(segments)
        self.active = self.segments[-1]
        self._directory = directory
        self._handles = handles
        self._disk: Disk = handles.disk
        self._rolled = [segment for segment in self.segments[:-1] if segment.is_dirty]
        """Sealed segments with bytes that are not yet flushed."""
        self._unsaved_aborts = [segment for segment in self.segments[:-1] if segment.has_unsaved_aborts]
        """Sealed segments whose index of aborted transactions is not wholly in its file."""
        self.may_have_aborts = any(segment.aborted is None or len(segment.aborted) for segment in self.segments)
        """False for most logs, whose readers then need not ask each segment."""
        self.run_beside: Callable[[Errand], None] | None = None
        self.on_lost_aborted: Callable[[int], None] | None = None
        """Hears of a lost index, by the number of its segment, and raises NotYet."""
        self.cuts_under_way = 0
        """Bytes that were taken back, and may still be on the device: nothing may be written in their place."""

    def number_of(self, offset: int) -> int:
        """Which segment holds `offset`."""
        if offset >= self.active.base_offset:
            return len(self.segments) - 1
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def end_of(self, number: int, log_end: int) -> int:
        """Where a segment ends (exclusive); the last one ends with the log."""
        return self.segments[number + 1].base_offset if number + 1 < len(self.segments) else log_end

    def full(self) -> Refusal:
        return Refusal(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk is full ({self._disk.free_bytes()} bytes are free) and nothing was written; free some space or "
            f"shorten retention, and writing resumes by itself",
        )

    # At the end

    def write(self, segment: Segment, views: Sequence[Buffer], size: int) -> None:
        """Put bytes at the end of a file: all of them, or a Refusal and none. The segment does not know of them yet."""
        if self.cuts_under_way:
            raise self.full()
        try:
            file = self._handles.file(segment)
            written = file.append(views)
        except OSError as error:
            raise DiskFailure(f"the disk refused a write to {segment.log_path}: {error}") from error
        if written != size:
            self._take_back(file, segment)
            raise self.full()

    def take_back(self, segment: Segment) -> None:
        """Remove bytes that were written and never published."""
        self._take_back(self._handles.file(segment), segment)

    def _take_back(self, file: File, segment: Segment) -> None:
        """No slice can hold these bytes, so slices stay current."""
        if file.size() == segment.size:
            return
        generation = file.generation
        try:
            file.truncate(segment.size)
            if self.run_beside is None:
                file.sync()  # or a power cut could show them among the bytes that take their place
        except OSError as error:
            raise DiskFailure(f"the disk refused to cut {segment.log_path}: {error}") from error
        file.generation = generation
        if self.run_beside is not None:
            self.cuts_under_way += 1
            self.run_beside(SyncCut(file, segment.log_path, self._cut_is_safe))

    def _cut_is_safe(self) -> None:
        self.cuts_under_way -= 1

    def create(self, base_offset: int) -> Segment:
        """A new, empty segment, which is not in the chain yet."""
        segment = Segment(self._directory, base_offset)
        segment.begin_indexes()
        try:
            file = self._handles.file(segment, create=True)
            if file.size():
                file.truncate(0)  # left behind by a crash in the middle of a roll
        except OSError as error:
            if error.errno in NO_SPACE:
                raise self.full() from error
            raise DiskFailure(f"the disk refused to create {segment.log_path}: {error}") from error
        return segment

    def go_on_in(self, segment: Segment) -> None:
        """Seal the active segment and make `segment` the active one. An empty one is not worth keeping."""
        sealed = self.active
        if sealed.size == 0 and sealed.base_offset != segment.base_offset:
            self.segments.pop()
            self.discard(sealed)
        else:
            sealed.seal(self._disk)
            if not sealed.save_aborted(self._disk):
                self._unsaved_aborts.append(sealed)
            self._handles.note_index(sealed)
            if sealed.is_dirty:
                self._rolled.append(sealed)
        self.segments.append(segment)
        self.active = segment

    def discard(self, segment: Segment) -> None:
        """Remove a segment's files."""
        self._retire(segment)
        for path in segment.paths:
            self._disk.remove(path)

    def _retire(self, segment: Segment) -> None:
        """Slices that still hold its file can tell that its bytes no longer count."""
        if segment.file is not None:
            segment.file.generation += 1
        self._handles.close(segment)

    # Cutting

    def start_again_at(self, offset: int) -> list[str]:
        """Drop everything, and go on in an empty segment. Returns the files of what was dropped; the new one has none
        yet."""
        dropped: list[str] = []
        while self.segments:
            dropped += self._drop_last()
        self.active = Segment(self._directory, offset)
        self.active.begin_indexes()
        self.segments.append(self.active)
        return dropped

    def cut_to(self, end_offset: int, last: Segment, remade: Segment) -> list[str]:
        """`last` is active from now on, as it was made anew. Returns the files of what was dropped, newest first."""
        dropped: list[str] = []
        while self.active is not last:
            dropped += self._drop_last()
        self._forget(last)
        self._handles.forget_index(last)
        last.end_as(remade, end_offset)
        return dropped

    def replace(self, number: int, count: int, cleaned: Sequence[Segment]) -> None:
        """Cleaned segments take the place of `count` sealed ones. Who reads the old files reads on."""
        for old in self.segments[number : number + count]:
            self._forget(old)
            self._handles.close(old)
        self.segments[number : number + count] = cleaned

    def drop_first(self) -> Segment:
        """Take the oldest segment out of the chain. Its files stay."""
        segment = self.segments.pop(0)
        self._forget(segment)
        self._handles.close(segment)
        return segment

    def _drop_last(self) -> tuple[str, ...]:
        """Its files stay."""
        dropped = self.segments.pop()
        self._forget(dropped)
        self._retire(dropped)
        if self.segments:
            self.active = self.segments[-1]
        return dropped.paths

    def _forget(self, segment: Segment) -> None:
        """The segment goes, or is active again: it is no longer one of those that wait for something."""
        for waiting in (self._rolled, self._unsaved_aborts):
            if segment in waiting:
                waiting.remove(segment)

    # Flushing

    def dirty_segments(self) -> list[Segment]:
        return [segment for segment in (*self._rolled, self.active) if segment.is_dirty]

    def forget_flushed(self) -> None:
        self._rolled = [segment for segment in self._rolled if segment.is_dirty]

    # Aborted transactions

    def note_aborted(self, segment: Segment, ended: EndedTransaction) -> None:
        assert segment.aborted is not None, "the segment that is written to has all its indexes in memory"
        segment.aborted.add(ended)
        self.may_have_aborts = True

    def aborted_of(self, number: int, log_end: int) -> AbortedIndex:
        """A segment's index of aborted transactions, read or even rebuilt if it is not in memory."""
        segment = self.segments[number]
        if segment.aborted is not None:
            return segment.aborted
        try:
            aborted = segment.load_aborted(self._disk)
        except BadIndex:
            if self.on_lost_aborted is not None:
                self.on_lost_aborted(number)
            aborted = self._rebuild_aborted(number, self.end_of(number, log_end))
        self._handles.note_index(segment)
        return aborted

    def _rebuild_aborted(self, number: int, end_offset: int) -> AbortedIndex:
        """The log is the truth. If it cannot be read, nothing changes: an empty index would show what was aborted."""
        segment = self.segments[number]
        names = self._disk.list(self._directory)
        replayed = replay_aborted(
            self._disk, self._directory, names, self.segments[: number + 1], segment.base_offset, end_offset
        )
        return self.take_aborted(segment, replayed)

    def take_aborted(self, segment: Segment, replayed: Sequence[EndedTransaction]) -> AbortedIndex:
        """An index that was made anew; there is no file of it, or a wrong one."""
        aborted = segment.forget_aborted()
        for ended in replayed:
            aborted.add(ended)
        if segment is not self.active and segment not in self._unsaved_aborts:
            self._unsaved_aborts.append(segment)
        return aborted

    @property
    def has_wrong_files(self) -> bool:
        return any(segment.has_wrong_aborted_file for segment in (*self._unsaved_aborts, self.active))

    def side_files(self) -> list[SideFile]:
        """The indexes whose files are wrong."""
        return [
            SideFile(segment.aborted_path, segment.aborted.encode(), _noting(segment, len(segment.aborted)), True)
            for segment in (*self._unsaved_aborts, self.active)
            if segment.has_wrong_aborted_file and segment.aborted is not None
        ]

    def save_aborted(self) -> None:
        """Append what only memory has. If that cannot be it is a Refusal: no recovery point may pass these
        transactions."""
        self._unsaved_aborts = [segment for segment in self._unsaved_aborts if not segment.save_aborted(self._disk)]
        if not self.active.save_aborted(self._disk) or self._unsaved_aborts:
            raise self.full()


def _noting(segment: Segment, saved_aborted: int) -> Callable[[], None]:
    def note() -> None:
        segment.saved_aborted = saved_aborted

    return note


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
