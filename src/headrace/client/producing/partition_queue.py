"""One partition's way out of a producer: a batch that fills, those that wait, and the one under way.

Only one batch per partition is under way at a time. So a retry cannot be overtaken, order is kept without any more
rules, and while one batch travels the next one grows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.wire.batches.header import SEQUENCE_MAX

if TYPE_CHECKING:
    from headrace.client.producing.batch import Identity, PendingBatch
    from headrace.model.names import TopicPartition


class PartitionQueue:
    """The batches of one partition that are not in the log yet."""

    __slots__ = ("_identity", "_next_sequence", "filling", "partition", "retry_at_s", "under_way", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.filling: PendingBatch | None = None
        self.waiting: deque[PendingBatch] = deque()
        self.under_way: PendingBatch | None = None
        self.retry_at_s = 0.0
        self._identity: Identity | None = None
        self._next_sequence = 0

    def close_filling(self) -> None:
        """No more messages into the batch that fills."""
        if self.filling is not None:
            self.waiting.append(self.filling)
            self.filling = None

    def is_ready(self, now_s: float) -> bool:
        """True if a batch should leave now."""
        if self.under_way is not None or now_s < self.retry_at_s:
            return False
        return bool(self.waiting) or (self.filling is not None and self.filling.is_expired(now_s))

    def start_next(self) -> PendingBatch:
        """The batch that leaves now. There is one: see `is_ready`."""
        if not self.waiting:
            self.close_filling()
        self.under_way = self.waiting.popleft()
        return self.under_way

    def encode(self, batch: PendingBatch, identity: Identity | None) -> bytearray:
        """The bytes to send. A new identity starts to count at 0."""
        if batch.encoded is None and identity != self._identity:
            self._identity = identity
            self._next_sequence = 0
        return batch.encode(identity, self._next_sequence)

    def arrived(self, batch: PendingBatch) -> None:
        """The batch is in the log. Only now its numbers are used up: one that was refused leaves no gap."""
        if batch.identity is not None and batch.identity == self._identity:
            self._next_sequence = (batch.base_sequence + batch.count) & SEQUENCE_MAX

    def put_back(self, batches: tuple[PendingBatch, ...], retry_at_s: float) -> None:
        """What was under way, or its halves, comes first again, but not before `retry_at_s`."""
        self.under_way = None
        self.retry_at_s = retry_at_s
        self.waiting.extendleft(reversed(batches))

    @property
    def batches(self) -> list[PendingBatch]:
        """All that are not in the log yet, in the order in which they go there."""
        filling = [] if self.filling is None else [self.filling]
        under_way = [] if self.under_way is None else [self.under_way]
        return [*under_way, *self.waiting, *filling]
