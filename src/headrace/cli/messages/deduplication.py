"""Drops messages that were seen before, by an id that the application put into a header. Pure.

A broker can tell that a batch is a retry; it cannot tell that an application sent the same thing twice. An id in a
header can. The window is a number of ids, so that memory stays bounded however long a command runs.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.names import TopicPartition
    from headrace.wire.batches.records import Record

    Batch = Sequence[tuple[TopicPartition, Record]]

WINDOW = 100_000  # ids, in about 10 MB
DIGEST_BYTES = 16  # ids of any length cost the same, and no two that differ will ever meet


class RepeatFilter:
    """Remembers the last ids that it saw, over all partitions. The oldest leaves first."""

    def __init__(self, header: str, window: int = WINDOW) -> None:
        self.dropped_count = 0
        self._header = header
        self._window = window
        self._seen: set[bytes] = set()
        self._order: deque[bytes] = deque()
        self._added_last = 0
        self._dropped_last = 0

    def fresh(self, batch: Batch) -> Batch:
        """Those that are no repeats. A message without an id is none."""
        kept: list[tuple[TopicPartition, Record]] = []
        self._added_last = 0
        for name, record in batch:
            digest = self._digest(record)
            if digest is not None:
                if digest in self._seen:
                    continue
                self._remember(digest)
            kept.append((name, record))
        self._dropped_last = len(batch) - len(kept)
        self.dropped_count += self._dropped_last
        return kept

    def take_back(self) -> None:
        """The last batch came to nothing and will be read again: its messages are no repeats of themselves."""
        for _ in range(min(self._added_last, len(self._order))):
            self._seen.remove(self._order.pop())
        self.dropped_count -= self._dropped_last
        self._added_last = self._dropped_last = 0

    def _remember(self, digest: bytes) -> None:
        self._seen.add(digest)
        self._order.append(digest)
        self._added_last += 1
        if len(self._order) > self._window:
            self._seen.remove(self._order.popleft())

    def _digest(self, record: Record) -> bytes | None:
        """Of the last header with the name: headers may repeat, and Kafka's clients take the last one too."""
        for name, value in reversed(record.headers):
            if name == self._header and value is not None:
                return blake2b(value, digest_size=DIGEST_BYTES).digest()
        return None
