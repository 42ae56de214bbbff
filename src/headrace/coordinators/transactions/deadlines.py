"""When open transactions run out of time. A heap that forgets late: what was stopped is dropped when it comes up."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

STOPPED_MAX: Final = 1_000  # entries kept for nothing before the heap is cleaned; a busy id leaves one per transaction


class Deadlines:
    """At most one per name, in milliseconds of the steady clock."""

    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        """Holds an entry for each deadline, and some for those that were stopped."""

    def start(self, name: str, deadline_ms: int) -> None:
        self._deadlines[name] = deadline_ms
        heappush(self._heap, (deadline_ms, name))
        if len(self._heap) > 2 * len(self._deadlines) + STOPPED_MAX:
            self._heap = [(deadline, name) for name, deadline in self._deadlines.items()]
            heapify(self._heap)

    def stop(self, name: str) -> None:
        self._deadlines.pop(name, None)

    def next_ms(self) -> int | None:
        heap = self._heap
        while heap and self._deadlines.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int) -> str | None:
        """The name that is longest over its time, which is stopped thereby."""
        next_ms = self.next_ms()
        if next_ms is None or next_ms > now_ms:
            return None
        _, name = heappop(self._heap)
        self.stop(name)
        return name
