"""How a follower writes: its leader's batches as they are there, and what has to be cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import Offset
from headrace.replication.fetched_batches import Expected, new_batches

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.replication.replica import Replica
    from headrace.storage.store.flusher import Flusher


class UnexpectedGaps(Exception):
    """The leader's log was compacted, and this one is not marked as a copy of such a log yet. A start would take the
    missing offsets for damage, so it has to be, before they are written."""


class FollowerWriter:
    """One partition's, for as long as another node leads it."""

    __slots__ = ("_flusher", "_log", "_partition", "_replica")

    def __init__(self, partition: Partition, replica: Replica, flusher: Flusher) -> None:
        self._partition = partition
        self._log = partition.log
        self._replica = replica
        self._flusher = flusher

    def append(
        self, records: memoryview, high_watermark: Offset, log_start: Offset, *, may_have_gaps: bool = False
    ) -> bool:
        """What follows in the leader's log, as it is there. Raises CorruptBatch if it is damaged; nothing is kept then.

        `may_have_gaps` is the leader's word: its log was compacted, if only long ago. Today's settings do not tell. The
        first time that offsets are missing, nothing is kept and UnexpectedGaps is raised.
        Returns whether the log begins elsewhere now, which is to be made durable before anybody is told.
        """
        log, partition = self._log, self._partition
        expected = Expected(log.next_offset, log.epochs.latest, self._replica.leader_epoch, may_have_gaps)
        views, headers = new_batches(records, expected)
        if views:
            offsets = sum(header.last_offset_delta + 1 for header in headers)
            if headers[-1].next_offset - log.next_offset != offsets and not log.may_have_gaps:
                raise UnexpectedGaps
            log.append(views, headers)
            self._replica.on_written(Offset(log.next_offset))
            self._flusher.want(log, is_urgent=True)
        partition.advance(self._replica.on_leader_said(high_watermark))
        start = min(log_start, partition.high_watermark)
        if start <= log.start_offset:
            return False
        log.retention.advance_start(start)
        partition.review_stability()
        return True

    def was_cut(self) -> None:
        """The log was truncated, or begun anew: it did not agree with the leader's."""
        log, partition = self._log, self._partition
        self._replica.on_truncated(Offset(log.next_offset))
        partition.high_watermark = min(partition.high_watermark, self._replica.high_watermark)
        log.high_watermark = partition.high_watermark
        partition.review_stability()
