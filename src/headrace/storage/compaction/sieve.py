"""What of a log outlives its compaction, decided batch by batch, from the first to the last.

Stays: the newest record of each key; a tombstone until its horizon; whatever is not in the key map yet.
Goes: older records, records without a key, and everything that a transaction wrote that was then aborted.

Some batches stay though nothing in them does, emptied: the last one of each idempotent producer, which carries its
sequence, and the last one of each new segment, so that segments join and readers' places move on.

A marker stays as long as any batch of its transaction does: who replays the log would else take it for open. After
that it has a horizon, as tombstones do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.batches.trimming import empty_batch, keys_of, records_of, trim_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.storage.compaction.key_map import KeyMap
    from headrace.wire.batches.header import BatchHeader, Buffer

HORIZON_MAX = 2**63 - 1  # what the field holds; it means for ever
INFLATE_MAX = 64 << 20  # as for batches on their way in: what unfolds further was never taken into a compacted topic


class AbortedSpan(NamedTuple):
    """From a transaction's first record to its abort marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


class LastEntry(NamedTuple):
    """What the log holds last of a producer that may write again."""

    last_offset: int
    """Of its last batch; -1 if only a marker is known of it."""
    producer_epoch: int


class AbortedTransactions:
    """Asked for batches in the order of the log."""

    def __init__(self, aborted: Iterable[AbortedSpan]) -> None:
        self._by_producer: dict[int, list[AbortedSpan]] = {}
        for span in sorted(aborted, key=lambda span: span.first_offset, reverse=True):
            self._by_producer.setdefault(span.producer_id, []).append(span)

    def covers(self, header: BatchHeader) -> bool:
        """True if the batch belongs to a transaction that was aborted."""
        spans = self._by_producer.get(header.producer_id)
        if not spans or not header.is_transactional:
            return False
        while spans and spans[-1].marker_offset < header.base_offset:
            spans.pop()
        return bool(spans) and spans[-1].first_offset <= header.base_offset


class Sieve:
    """`key_map` knows the newest offsets of the keys up to `map_end` (exclusive). Later records all stay."""

    def __init__(
        self,
        key_map: KeyMap,
        map_end: int,
        aborted: Iterable[AbortedSpan],
        last_entries: Mapping[int, LastEntry],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._key_map = key_map
        self._map_end = map_end
        self._aborted = AbortedTransactions(aborted)
        self._last_entries = last_entries
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + delete_retention_ms, HORIZON_MAX)
        self._present: set[int] = set()
        """Producers of which a transaction's batches stay; their next marker must too."""
        self.latest_horizon_ms = -1
        """The last of all the horizons that are kept: by then a further pass removes something."""
        self.dropped_records = 0

    def keep(self, batch: memoryview, header: BatchHeader, *, is_last: bool) -> Buffer | None:
        """What stays of a batch; None if nothing does. `is_last` says that the new segment ends with it."""
        kept: Buffer | None
        if header.is_control:
            kept = batch if header.base_offset >= self._map_end else self._keep_marker(batch, header, is_last=is_last)
            self._present.discard(header.producer_id)
            return kept
        if self._aborted.covers(header):  # also beyond the map: the new segment has no index of aborted transactions
            self.dropped_records += header.record_count
            kept = None
        else:
            kept = batch if header.base_offset >= self._map_end else self._keep_records(batch, header)
        if kept is None and (is_last or self._is_last_of_producer(header)):
            kept = empty_batch(header) if header.record_count else batch
        if kept is not None and header.is_transactional:
            self._present.add(header.producer_id)
        return kept

    def _keep_records(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        body = records_of(batch, header, inflate_max=INFLATE_MAX)
        horizon_ms = header.delete_horizon_ms
        has_outlived = horizon_ms is not None and horizon_ms <= self._now_ms
        is_kept = bytearray(header.record_count)
        has_tombstone = False
        latest, map_end = self._key_map.latest, self._map_end
        for index, (offset, key, is_tombstone) in enumerate(keys_of(header, body)):
            if offset < map_end:
                if key is None or latest(key) > offset:
                    continue
                if is_tombstone:
                    if has_outlived:
                        continue
                    has_tombstone = True
            is_kept[index] = 1
        kept_count = is_kept.count(1)
        self.dropped_records += header.record_count - kept_count
        # A batch whose end is not in the map comes again, and a horizon holds for all of it.
        needs_horizon = has_tombstone and horizon_ms is None and header.last_offset < map_end
        if needs_horizon or (has_tombstone and horizon_ms is not None):
            self._note_horizon(horizon_ms)
        if not kept_count:
            return None
        if needs_horizon:
            return trim_batch(header, body, is_kept, delete_horizon_ms=self._new_horizon_ms)
        return batch if kept_count == header.record_count else trim_batch(header, body, is_kept)

    def _keep_marker(self, batch: memoryview, header: BatchHeader, *, is_last: bool) -> Buffer | None:
        if header.producer_id in self._present:
            return batch
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            self._note_horizon(None)
            body = records_of(batch, header, inflate_max=INFLATE_MAX)
            everything = b"\1" * sum(1 for _ in keys_of(header, body))
            return trim_batch(header, body, everything, delete_horizon_ms=self._new_horizon_ms)
        if horizon_ms > self._now_ms:
            self._note_horizon(horizon_ms)
            return batch
        return batch if is_last or self._is_last_of_producer(header) else None

    def _note_horizon(self, horizon_ms: int | None) -> None:
        self.latest_horizon_ms = max(self.latest_horizon_ms, self._new_horizon_ms if horizon_ms is None else horizon_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_entries.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch
