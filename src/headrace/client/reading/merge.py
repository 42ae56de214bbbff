"""Puts the records of several partitions in the order of their timestamps.

A k-way merge: the earliest of all first records comes out next. That is certain only while every partition has a
record to compare. A partition that is silent is waited for, but not for ever: after `idle_wait_s` the others go on
without it. What it brings later, with an earlier timestamp, comes out late rather than never.

Within a partition the order of the log stands, also where its timestamps go back.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.wire.batches.records import Record

Source = TypeVar("Source")


class TimeMerge(Generic[Source]):
    """Knows no clock: whoever calls says what time it is, in seconds from any start."""

    def __init__(self, sources: Iterable[Source], *, idle_wait_s: float = math.inf, now_s: float = 0.0) -> None:
        self._names: list[Source] = list(sources)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._queues: list[deque[Record]] = [deque() for _ in self._names]
        # The first record of each queue: its timestamp, then its source's number, so that ties have one order.
        self._heads: list[tuple[int, int]] = []
        self._silent_since_s: dict[int, float] = dict.fromkeys(range(len(self._names)), now_s)
        self._ended: dict[int, None] = {}
        self._idle_wait_s = idle_wait_s
        self._last_timestamp = -math.inf
        self.late_count = 0
        """Records that came out after one with a later timestamp."""

    @property
    def hungry(self) -> list[Source]:
        """Sources without a record. Feed them: the merge waits for them."""
        return [self._names[number] for number in self._silent_since_s]

    @property
    def is_exhausted(self) -> bool:
        """True if every source has ended and nothing is left."""
        return not self._heads and not self._silent_since_s

    def add(self, source: Source, records: Sequence[Record]) -> None:
        """The next records of a source, in its own order."""
        if not records:
            return
        number = self._numbers[source]
        queue = self._queues[number]
        if not queue:
            heapq.heappush(self._heads, (records[0].timestamp, number))
            self._silent_since_s.pop(number, None)
        queue.extend(records)

    def end(self, source: Source) -> None:
        """Nothing more will come from this source: what it has still comes out, and then it is not waited for."""
        number = self._numbers[source]
        self._ended[number] = None
        self._silent_since_s.pop(number, None)

    def take(self, now_s: float, count: int) -> list[tuple[Source, Record]]:
        """Up to `count` records whose turn it is."""
        taken: list[tuple[Source, Record]] = []
        heads = self._heads
        while len(taken) < count and heads and now_s >= self._waits_until_s():
            timestamp, number = heads[0]
            queue = self._queues[number]
            taken.append((self._names[number], queue.popleft()))
            if timestamp < self._last_timestamp:
                self.late_count += 1
            else:
                self._last_timestamp = timestamp
            if queue:
                heapq.heapreplace(heads, (queue[0].timestamp, number))
                continue
            heapq.heappop(heads)
            if number not in self._ended:
                self._silent_since_s[number] = now_s
        return taken

    def ready_at_s(self) -> float | None:
        """When `take` has something to give without being fed; None if it has nothing to give at all."""
        return self._waits_until_s() if self._heads else None

    def _waits_until_s(self) -> float:
        # Sources fall silent one after the other, so the last one in has waited least.
        for since_s in reversed(self._silent_since_s.values()):
            return since_s + self._idle_wait_s
        return -math.inf
