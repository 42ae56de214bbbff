"""Indexes of a log that are lost are built again beside the loop, from the moment that somebody runs repairs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.log.repairs import NotYet, RebuildIndex, RebuildTransactionIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.replication.open_transactions import EndedTransaction
    from headrace.storage.log.batch_positions import BatchPositions
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.log.repairs import Repair
    from headrace.storage.log.transaction_indexes import TransactionIndexes
    from headrace.storage.segments.segment import Segment
    from headrace.storage.segments.segment_cache import SegmentCache


class LostIndexes:
    """Until one is built again, its readers hear NotYet."""

    __slots__ = ("_cache", "_log", "_run_beside", "_segments", "_transactions")

    def __init__(
        self,
        log: LogState,
        segments: LogSegments,
        transactions: TransactionIndexes,
        cache: SegmentCache,
        run_beside: Callable[[Repair], None],
    ) -> None:
        self._log = log
        self._segments = segments
        self._transactions = transactions
        self._cache = cache
        self._run_beside = run_beside

    def take_over(self, positions: BatchPositions) -> None:
        """What is lost is reported here from now on, and not rebuilt where others wait for it."""
        self._segments.run_beside = self._run_beside
        positions.on_lost = self._rebuild_index
        self._transactions.on_lost = self._rebuild_transaction_index

    def _rebuild_index(self, segment: Segment) -> None:
        interval_bytes = self._log.settings.index_interval_bytes
        self._begin(RebuildIndex(self._cache.disk, segment, interval_bytes, self._take_index))

    def _rebuild_transaction_index(self, number: int) -> None:
        segments, end_offset = tuple(self._segments.segments[: number + 1]), self._segments.end_of(number)
        directory = self._log.directory
        self._begin(
            RebuildTransactionIndex(self._cache.disk, directory, segments, end_offset, self._take_transaction_index)
        )

    def _begin(self, repair: Repair) -> None:
        self._run_beside(repair)
        raise NotYet(repair.what)

    def _take_index(self, segment: Segment, made: Segment) -> None:
        if segment.is_sealed and self._holds(segment):
            segment.take_indexes(made)
            segment.seal(self._cache.disk)
            self._cache.note_index(segment)

    def _take_transaction_index(self, segment: Segment, made: Sequence[EndedTransaction]) -> None:
        if segment.is_sealed and segment.aborted.entries is None and self._holds(segment):
            self._transactions.take(segment, made)
            self._cache.note_index(segment)

    def _holds(self, segment: Segment) -> bool:
        """It is neither gone nor replaced by what compaction has left of it."""
        return not self._log.is_closed and segment in self._segments.segments
