"""The front of a log: where it begins, and which segments go because nobody is to read them any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.storage.files.read_faults import reads_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.storage.files.leader_epochs import LeaderEpochs
    from headrace.storage.log.batch_positions import BatchPositions
    from headrace.storage.log.log_segments import LogSegments
    from headrace.storage.log.log_state import LogState
    from headrace.storage.segments.producer_snapshots import ProducerSnapshots
    from headrace.storage.segments.segment import Segment


class Retention:
    __slots__ = ("_epochs", "_garbage", "_log", "_positions", "_roll", "_segments", "_snapshots")

    def __init__(
        self,
        log: LogState,
        segments: LogSegments,
        positions: BatchPositions,
        epochs: LeaderEpochs,
        snapshots: ProducerSnapshots,
        roll: Callable[[], None],
    ) -> None:
        self._log = log
        self._segments = segments
        self._positions = positions
        self._epochs = epochs
        self._snapshots = snapshots
        self._roll = roll
        self._garbage: list[str] = []

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are deleted. Whole segments of them go at the next `delete_expired`."""
        assert offset <= self._log.next_offset, "a log cannot begin after its end"
        if offset > self._log.start_offset:
            self._log.start_offset = offset
            self._epochs.truncate_start(offset)

    @reads_log
    def delete_expired(self, now_ms: int) -> list[int]:
        """Drop whole segments from the front that retention or `advance_start` gave up; return their base offsets.

        Their files stay until `take_garbage`, which comes after the new log start was made durable: files that a
        power cut brings back must be known to be gone.
        """
        segments = self._segments
        removed: list[int] = []
        if segments.is_being_cut:
            return removed
        while self._is_expired(segments.segments[0], now_ms):
            if len(segments.segments) == 1 and not self._roll_if_possible():
                break
            if not self._outlive_producers(segments.segments[0]):
                break
            segment = segments.drop_first()
            self._garbage += segment.paths
            removed.append(segment.base_offset)
        if removed:
            self._positions.forget()
            self.advance_start(segments.segments[0].base_offset)
        return removed

    def _roll_if_possible(self) -> bool:
        try:
            self._roll()
        except Refusal:  # not even room for an empty file: next time
            return False
        return True

    def _outlive_producers(self, first: Segment) -> bool:
        """Whether what the first segment tells of its producers is kept in a snapshot. Else they could send again what
        they have sent before, and it would be taken for new."""
        end_offset = self._segments.end_of(0)
        if self._snapshots.cover(end_offset) or self._snapshots.save(self._log.next_offset):
            return True
        for path in first.index_paths:  # on a full disk they make room, and are made again if need be
            self._segments.disk.remove(path)
        return self._snapshots.save(self._log.next_offset)

    def _is_expired(self, segment: Segment, now_ms: int) -> bool:
        """Nothing above the high watermark goes: a follower may not have it yet."""
        log, end_offset = self._log, self._segments.end_of(0)
        if segment.size == 0 or end_offset > log.high_watermark:
            return False
        if end_offset <= log.start_offset:
            return True
        retention_ms, retention_bytes = log.settings.retention_ms, log.settings.retention_bytes
        if retention_bytes is not None and self._segments.size_bytes - segment.size >= retention_bytes:
            return True
        return retention_ms is not None and self._newest_ms(segment, now_ms) < now_ms - retention_ms

    def _newest_ms(self, segment: Segment, now_ms: int) -> int:
        """The age of a segment for retention: its largest timestamp, or else when we first looked."""
        newest_timestamp = self._positions.newest_timestamp(segment)
        if newest_timestamp >= 0:
            return newest_timestamp
        if segment.undated_since_ms is None:
            segment.undated_since_ms = now_ms
        return segment.undated_since_ms

    # The files of what was dropped

    def take_garbage(self) -> list[str]:
        """Files of dropped segments, for the caller to remove."""
        garbage, self._garbage = self._garbage, []
        return garbage

    def give_back_garbage(self, paths: list[str]) -> None:
        """These could not be removed yet."""
        self._garbage = paths + self._garbage

    def keep_files(self, paths: Sequence[str]) -> None:
        """These are in use again."""
        self._garbage = [path for path in self._garbage if path not in paths]
