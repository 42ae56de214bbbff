"""Which of many deadlines comes next."""

from __future__ import annotations

import sys
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=str | tuple[str, ...])

LEFT_OVER_MAX: Final = 1_000  # before the heap is cleaned; a busy transactional id leaves one entry per transaction


class Deadlines(Generic[Key]):
    """One moment of the steady clock per key.

    To put a deadline off, as each heartbeat does, costs one entry in a dictionary: the heap learns of it when the
    earlier moment has come.
    """

    def __init__(self) -> None:
        self._due_ms: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []
        """For each key an entry at its deadline or before it; others may be left over."""

    def set(self, key: Key, due_ms: int) -> None:
        known_ms = self._due_ms.get(key)
        self._due_ms[key] = due_ms
        if known_ms is None or due_ms < known_ms:
            heappush(self._heap, (due_ms, key))
            if len(self._heap) > 2 * len(self._due_ms) + LEFT_OVER_MAX:
                self._heap = [(moment_ms, name) for name, moment_ms in self._due_ms.items()]
                heapify(self._heap)

    def cancel(self, key: Key) -> None:
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        while self._heap:
            noted_ms, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == noted_ms:
                return due_ms
            if due_ms is None:
                heappop(self._heap)
            else:
                heapreplace(self._heap, (due_ms, key))
        return None

    def take_due(self, now_ms: int, at_most: int = sys.maxsize) -> list[Key]:
        """The keys whose moment has come, earliest first. They have no deadline any more."""
        due: list[Key] = []
        while len(due) < at_most and (next_ms := self.next_ms()) is not None and next_ms <= now_ms:
            _, key = heappop(self._heap)
            del self._due_ms[key]
            due.append(key)
        return due
