"""A log's indexes of aborted transactions: one for each segment, in memory or in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.files.read_faults import reads_log
from headrace.storage.files.side_files import SideFile
from headrace.storage.segments.index_files import BadIndex
from headrace.storage.segments.producer_snapshots import replay_aborted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache
    from headrace.storage.segments.transaction_index import AbortedIndex, AbortedTransaction, TransactionIndex


class TransactionIndexes:
    __slots__ = ("_cache", "_log", "_may_have_aborts", "_segments", "_unsaved", "on_lost")

    def __init__(self, log: LogState, segments: LogSegments, cache: SegmentCache) -> None:
        self._log = log
        self._segments = segments
        self._cache = cache
        self._unsaved = [segment for segment in segments.segments[:-1] if segment.aborted.has_unsaved]
        """Sealed segments whose index is not wholly in its file. Some may be gone meanwhile, or active again."""
        indexes = (segment.aborted.entries for segment in segments.segments)
        self._may_have_aborts = any(index is None or len(index) for index in indexes)
        """False for most logs, whose readers then need not ask each segment."""
        self.on_lost: Callable[[int], None] | None = None
        """Hears of a lost index, by the number of its segment, and raises NotYet."""

    def note_aborted(self, segment: Segment, ended: EndedTransaction) -> None:
        assert segment.aborted.entries is not None, "the segment that is written to has all its indexes in memory"
        segment.aborted.entries.add(ended)
        self._may_have_aborts = True

    def note_sealed(self, segment: Segment) -> None:
        """Nothing more is written to it."""
        if not segment.aborted.save(self._segments.disk) and segment not in self._unsaved:
            self._unsaved.append(segment)

    @reads_log
    def aborted_between(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Transactions with records from `first_offset` on and below `end_offset` that were aborted, here or later."""
        segments = self._segments
        found: list[AbortedTransaction] = []
        if not self._may_have_aborts:
            return found
        for number in range(segments.number_of(first_offset), len(segments.segments)):
            aborted = self._index_of(number)
            if len(aborted):
                overlapping, may_go_on = aborted.overlapping(first_offset, end_offset)
                found += overlapping
                if not may_go_on:
                    break
        return found

    def _index_of(self, number: int) -> AbortedIndex:
        """A segment's index, read or even rebuilt if it is not in memory."""
        segment = self._segments.segments[number]
        if segment.aborted.entries is not None:
            return segment.aborted.entries
        try:
            aborted = segment.aborted.load(self._segments.disk)
        except BadIndex:
            if self.on_lost is not None:
                self.on_lost(number)
            aborted = self._rebuild(number)
        self._cache.note_index(segment)
        return aborted

    def _rebuild(self, number: int) -> AbortedIndex:
        """The log is the truth. If it cannot be read, nothing changes: an empty index would show what was aborted."""
        segments, disk, directory = self._segments.segments, self._segments.disk, self._log.directory
        names = disk.list(directory)
        first_offset, end_offset = segments[number].base_offset, self._segments.end_of(number)
        replayed = replay_aborted(disk, directory, names, segments[: number + 1], first_offset, end_offset)
        return self.take(segments[number], replayed)

    def take(self, segment: Segment, replayed: Sequence[EndedTransaction]) -> AbortedIndex:
        """An index that was made anew; there is no file of it, or a wrong one."""
        aborted = segment.aborted.forget()
        for ended in replayed:
            aborted.add(ended)
        if segment is not self._segments.active and segment not in self._unsaved:
            self._unsaved.append(segment)
        return aborted

    # Files

    def _unsaved_sealed(self) -> list[Segment]:
        if self._unsaved:
            sealed = self._segments.segments[:-1]
            self._unsaved = [segment for segment in self._unsaved if segment in sealed]
        return self._unsaved

    @property
    def has_wrong_files(self) -> bool:
        return any(segment.aborted.has_wrong_file for segment in (*self._unsaved_sealed(), self._segments.active))

    def side_files(self) -> list[SideFile]:
        """The indexes whose files are wrong."""
        return [
            SideFile(index.path, index.entries.encode(), _noting(index, len(index.entries)), True)
            for index in (segment.aborted for segment in (*self._unsaved_sealed(), self._segments.active))
            if index.has_wrong_file and index.entries is not None
        ]

    def save(self) -> None:
        """Append what only memory has. If that cannot be it is a Refusal: no recovery point may pass these
        transactions."""
        disk = self._segments.disk
        self._unsaved = [segment for segment in self._unsaved_sealed() if not segment.aborted.save(disk)]
        if not self._segments.active.aborted.save(disk) or self._unsaved:
            raise self._segments.full()


def _noting(index: TransactionIndex, saved: int) -> Callable[[], None]:
    def note() -> None:
        index.saved = saved

    return note
