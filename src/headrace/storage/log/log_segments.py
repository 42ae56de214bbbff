"""A log's segments, from the oldest to the one that is written to, and what happens to their files."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.storage.files.disk_errors import NO_SPACE
from headrace.storage.log.repairs import SyncTruncation
from headrace.storage.segments import rolling
from headrace.storage.segments.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.runtime.disk import Disk, File
    from headrace.storage.log.log_state import LogState
    from headrace.storage.log.repairs import Repair
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.wire.batches.header import BatchHeader, Buffer

    WrittenPart = tuple[Segment, Sequence[Buffer], Sequence[BatchHeader]]


class LogSegments:
    """`active` is always the last of `segments`; the others are sealed."""

    __slots__ = (
        "_cache",
        "_log",
        "active",
        "disk",
        "failure",
        "is_being_cut",
        "run_beside",
        "segments",
        "truncations_to_sync",
        "version",
    )

    def __init__(self, log: LogState, cache: SegmentCache, segments: Sequence[Segment]) -> None:
        self.segments = list(segments)
        self.active = self.segments[-1]
        self.disk: Disk = cache.disk
        self.failure: str | None = None
        """Why nothing can be written any more, until the node starts again."""
        self.is_being_cut = False
        """The log has been truncated, and its files are not yet as it says."""
        self.truncations_to_sync = 0
        """Bytes that were taken back, and may still be on the device: nothing may be written in their place."""
        self.version = 0
        """Odd while the end is cut off or compaction replaces segments, and a higher number once that is over: so who
        reads beside the loop can tell whether it saw one state of the log. Files are cut only afterwards."""
        self.run_beside: Callable[[Repair], None] | None = None
        self._log = log
        self._cache = cache

    def number_of(self, offset: int) -> int:
        """Which segment holds `offset`."""
        if offset >= self.active.base_offset:
            return len(self.segments) - 1
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def end_of(self, number: int) -> int:
        """Where a segment ends (exclusive); the last one ends with the log."""
        segments = self.segments
        return segments[number + 1].base_offset if number + 1 < len(segments) else self._log.next_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def closed_end(self) -> int:
        """Where the sealed segments end (exclusive), and the one that is written to begins; 0 if there are none."""
        return self.active.base_offset if len(self.segments) > 1 else 0

    def full(self) -> Refusal:
        return Refusal(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk is full ({self.disk.free_bytes()} bytes are free) and nothing was written; free some space or "
            f"shorten retention, and writing resumes by itself",
        )

    # At the end

    def write(self, segment: Segment, views: Sequence[Buffer], size: int) -> None:
        """Put bytes at the end of a file: all of them, or a Refusal and none. The segment does not know of them yet."""
        if self.truncations_to_sync:
            raise self.full()
        try:
            file = self._cache.file(segment)
            written = file.append(views)
        except OSError as error:
            raise DiskFailure(f"the disk refused a write to {segment.log_path}: {error}") from error
        if written != size:
            self._take_back(file, segment)
            raise self.full()

    def write_across(self, views: Sequence[Buffer], headers: Sequence[BatchHeader]) -> list[WrittenPart]:
        """Write batches of which some belong into new segments: all of them, or a Refusal and none. The first part may
        be for the active segment; those after it are not yet in the log."""
        log = self._log
        starts = rolling.split(headers, self.active, log.settings, log.next_offset)
        bounds = [0, *starts, len(headers)]
        written: list[WrittenPart] = []
        fresh: list[Segment] = []
        try:
            for number, (first, end) in enumerate(pairwise(bounds)):
                part = headers[first:end]
                if not part:
                    continue  # nothing of it goes into the active segment
                target = self.active
                if number:
                    end_offset = headers[first - 1].next_offset if first else log.next_offset
                    target = self.create(rolling.base_for(part[0], end_offset))
                    fresh.append(target)
                self.write(target, views[first:end], sum(header.size for header in part))
                written.append((target, views[first:end], part))
        except Refusal:
            for target, _, _ in written:
                self._take_back(self._cache.file(target), target)
            for target in fresh:
                self.discard(target)
            raise
        return written

    def _take_back(self, file: File, segment: Segment) -> None:
        """Remove bytes that were written and never published. No slice can hold them, so slices stay current."""
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
            self.truncations_to_sync += 1
            self.run_beside(SyncTruncation(file, segment.log_path, self._is_taken_back))

    def _is_taken_back(self) -> None:
        self.truncations_to_sync -= 1

    def create(self, base_offset: int) -> Segment:
        """A new, empty segment, which is not in the log yet."""
        segment = Segment(self._log.directory, base_offset)
        segment.begin_indexes()
        try:
            file = self._cache.file(segment, create=True)
            if file.size():
                file.truncate(0)  # left behind by a crash in the middle of a roll
        except OSError as error:
            if error.errno in NO_SPACE:
                raise self.full() from error
            raise DiskFailure(f"the disk refused to create {segment.log_path}: {error}") from error
        return segment

    def go_on_in(self, segment: Segment) -> Segment | None:
        """Make `segment` the active one. Returns the one that was, sealed; None if it was empty: that is not worth
        keeping."""
        before, self.active = self.active, segment
        if before.size == 0 and before.base_offset != segment.base_offset:
            self.segments[-1] = segment
            self.discard(before)
            return None
        before.seal(self.disk)
        self._cache.note_index(before)
        self.segments.append(segment)
        return before

    def discard(self, segment: Segment) -> None:
        """Remove a segment's files."""
        self._retire(segment)
        for path in segment.paths:
            self.disk.remove(path)

    def _retire(self, segment: Segment) -> None:
        """Slices that still hold its file can tell that its bytes no longer count."""
        if segment.file is not None:
            segment.file.generation += 1
        self._cache.close(segment)

    # Changes that those who read beside the loop have to notice

    @contextmanager
    def changing(self) -> Iterator[None]:
        self.version += 1
        try:
            yield
        finally:
            self.version += 1

    def leased_for_cut(self, last: Segment, remade: Segment) -> File:
        """Slices of what goes are no longer current from now on. A Refusal leaves everything as it was."""
        file = self._cache.file(last)
        file.lease()
        if remade.size < last.size:
            file.generation += 1
        return file

    def start_again_at(self, offset: int) -> list[str]:
        """Drop everything, and go on in an empty segment. Returns the files of what was dropped; the new one has none
        yet."""
        dropped: list[str] = []
        while self.segments:
            dropped += self._drop_last()
        self.active = Segment(self._log.directory, offset)
        self.active.begin_indexes()
        self.segments.append(self.active)
        return dropped

    def cut_to(self, end_offset: int, last: Segment, remade: Segment) -> list[str]:
        """`last` is active from now on, as it was made anew. Returns the files of what was dropped, newest first."""
        dropped: list[str] = []
        while self.active is not last:
            dropped += self._drop_last()
        self._cache.forget_index(last)
        last.end_as(remade, end_offset)
        return dropped

    def replace(self, number: int, count: int, cleaned: Sequence[Segment]) -> None:
        """Cleaned segments take the place of `count` sealed ones. Who reads the old files reads on."""
        for old in self.segments[number : number + count]:
            self._cache.close(old)
        self.segments[number : number + count] = cleaned

    def drop_first(self) -> Segment:
        """Take the oldest segment out of the log. Its files stay."""
        segment = self.segments.pop(0)
        self._cache.close(segment)
        return segment

    def _drop_last(self) -> tuple[str, ...]:
        """Its files stay."""
        dropped = self.segments.pop()
        self._retire(dropped)
        if self.segments:
            self.active = self.segments[-1]
        return dropped.paths


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
