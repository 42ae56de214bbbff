"""What a producer still holds of the messages that it was given: their memory, and which of them were lost unseen."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from headrace.client.errors import DeliveryFailed

if TYPE_CHECKING:
    from headrace.client.producing.batch import PendingBatch

UNSEEN_FAILURES_MAX = 1000  # kept for `flush` to tell; whoever never flushes must not fill the memory


class SendBuffer:
    """Counts the bytes of all batches that are not settled. Whoever finds it full waits until one is."""

    __slots__ = ("_waiters", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def wait_for_room(self) -> None:
        """Until the next batch is settled; there may be no room even then."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def settle(self, batch: PendingBatch) -> None:
        """The outcome of a batch is known: let go of its messages, and let those go on who wait for room."""
        self.used_bytes -= batch.size
        batch.settle()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


class UnseenFailures:
    """Batches that were lost while nobody awaited a receipt of theirs. The next `flush` tells of them."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[PendingBatch] = []

    def add(self, batch: PendingBatch) -> None:
        """A batch was lost. If somebody awaits it, that is forgotten again."""
        self._batches = [failed for failed in self._batches if not failed.is_watched]
        if len(self._batches) < UNSEEN_FAILURES_MAX:
            self._batches.append(batch)

    def forget(self) -> None:
        """Something else tells."""
        self._batches = []

    def raise_any(self) -> None:
        """DeliveryFailed if anything was lost unseen since this was last asked."""
        failures, self._batches = [batch for batch in self._batches if not batch.is_watched], []
        if failures:
            raise _delivery_failed(failures)


def _delivery_failed(failures: list[PendingBatch]) -> DeliveryFailed:
    count = sum(batch.count for batch in failures)
    first = failures[0]
    assert first.error is not None
    cause = next(iter(first.errors_by_position.values()), first.error)
    noun = "message was" if count == 1 else "messages were"
    return DeliveryFailed(f"{count:,} {noun} not delivered to {first.partition.topic!r}: {cause}", count, cause)
