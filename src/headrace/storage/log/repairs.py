"""What a log needs done beside the loop, and cannot wait for: it refuses for now, and has somebody run the repair.

An index that is lost is built again from the batches of its segment, which may be a gigabyte. What a full disk has
taken half of is cut off again, and that has to be on the device before anything takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.storage.files.read_faults import reads_log
from headrace.storage.segments.producer_snapshots import replay_aborted
from headrace.storage.segments.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.runtime.disk import Disk, File


class Repair(Protocol):
    what: str
    """For people, and to tell repairs apart: the same is not run twice at a time."""

    def run(self) -> None:
        """In a thread; blocking. DamagedLog if the log cannot be read, DiskFailure if the disk fails."""
        ...

    def finish(self) -> None:
        """On the loop, also if it failed. What was made for a log that has changed meanwhile is dropped."""
        ...


class NotYet(Refusal):
    """What is needed to read there is being made: whoever asks again a little later gets an answer."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"to {what} takes a moment; ask again")


class RebuildIndex:
    """Both indexes of a sealed segment, from its batches."""

    def __init__(
        self, disk: Disk, segment: Segment, interval_bytes: int, take: Callable[[Segment, Segment], None]
    ) -> None:
        """`take` gets the segment, and another one with its indexes."""
        self.what = f"make the index of {segment.log_path} anew"
        self._disk = disk
        self._segment = segment
        self._size = segment.size
        self._interval_bytes = interval_bytes
        self._take = take
        self._made: Segment | None = None

    @reads_log
    def run(self) -> None:
        made = Segment("", self._segment.base_offset, self._size)
        file = self._disk.open(self._segment.log_path)
        try:
            made.rebuild_indexes(file, self._interval_bytes, self._segment.log_path)
        finally:
            file.close()
        self._made = made

    def finish(self) -> None:
        if self._made is not None and self._segment.size == self._size:
            self._take(self._segment, self._made)


class RebuildTransactionIndex:
    """The index of a sealed segment's aborted transactions, from the batches up to its end."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Sequence[Segment],
        end_offset: int,
        take: Callable[[Segment, Sequence[EndedTransaction]], None],
    ) -> None:
        self.what = f"make {segments[-1].aborted.path} anew"
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._end_offset = end_offset
        self._take = take
        self._made: Sequence[EndedTransaction] | None = None

    @reads_log
    def run(self) -> None:
        names = self._disk.list(self._directory)
        first_offset = self._segments[-1].base_offset
        self._made = replay_aborted(self._disk, self._directory, names, self._segments, first_offset, self._end_offset)

    def finish(self) -> None:
        if self._made is not None:
            self._take(self._segments[-1], self._made)


class SyncTruncation:
    """Bytes that a full disk took a part of are cut off. Until that is on the device nothing may take their place: a
    power cut could show them among what does."""

    def __init__(self, file: File, path: str, on_safe: Callable[[], None]) -> None:
        self.what = f"cut {path}"
        file.lease()
        self._file = file
        self._on_safe = on_safe
        self._is_safe = False

    def run(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            raise DiskFailure(f"the disk refused to {self.what}: {error}") from error
        self._is_safe = True

    def finish(self) -> None:
        self._file.release()
        if self._is_safe:
            self._on_safe()
