"""Those who wait for many bytes: none of them is looked at before it can possibly have enough.

A fetch that lacks `m` bytes waits at each of its partitions for a share of them; the shares add up to `m`. As long as
no partition has gained its share, all together have gained less than `m`. The first that has leads to a look, and what
is lacking then is shared out anew: half of it by what each has gained lately, half evenly. So each look finds about
half of what was lacking, and a fetch costs a few of them, however many appends there are and whoever makes them.

Bytes count once readers may see them, which is when the high watermark (or, for readers of committed records, the last
stable offset) is beyond the beginning of what was written together with them: rather too early than too late.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNKS_MAX: Final = 1024  # writes that are remembered one by one while a boundary stands still; later ones count as one
CLEAN_FROM: Final = 64  # entries; fewer are not worth a look for those that nobody waits for any more
_UNKNOWN: Final = 1 << 60  # more than any log has


class ByteWait:
    """Wakes once, at the first of its milestones."""

    __slots__ = ("_wake", "is_over")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.is_over = False

    def reached(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._wake()


class Milestones:
    """One partition's, at one of its boundaries. It counts only while somebody waits."""

    __slots__ = ("_chunks", "_clean_at", "_heap", "_number", "_passed")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ByteWait]] = []
        self._number = 0
        self._chunks: deque[tuple[int, int]] = deque()
        """Of each write that is not counted yet: its first offset, and the bytes ever written up to its end."""
        self._passed = 0
        self._clean_at = CLEAN_FROM

    def __len__(self) -> int:
        return len(self._heap)

    def wait(self, more: int, waiting: ByteWait, boundary: int, end: int, written: int) -> None:
        """`waiting` is to be told of `more` bytes. The boundary is at that offset, the log ends at `end`, and so many
        bytes were ever written to it."""
        if not self._heap:
            self._begin(boundary, end, written)
        self._number += 1
        heappush(self._heap, (self._passed + more, self._number, waiting))
        if len(self._heap) > self._clean_at:
            self._clean()

    def wrote(self, first_offset: int, written: int) -> None:
        if not self._heap:
            return
        if len(self._chunks) >= CHUNKS_MAX:
            first_offset = self._chunks.pop()[0]
        self._chunks.append((first_offset, written))

    def moved_to(self, boundary: int) -> None:
        heap, chunks = self._heap, self._chunks
        while chunks and chunks[0][0] < boundary:
            self._passed = chunks.popleft()[1]
        due = []
        while heap and heap[0][0] <= self._passed:
            due.append(heappop(heap)[2])
        for waiting in due:  # who looks and finds too little is back in the heap at once
            waiting.reached()

    def _begin(self, boundary: int, end: int, written: int) -> None:
        self._chunks.clear()
        self._passed = written
        if boundary < end:  # nobody has counted what lies between
            self._passed -= _UNKNOWN
            self._chunks.append((boundary, written))

    def _clean(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].is_over]
        heapify(self._heap)
        self._clean_at = max(CLEAN_FROM, 2 * len(self._heap))


def shares(lacking: int, gains: Sequence[int]) -> list[int]:
    """For how many bytes to wait at each of several partitions, which have lately gained so much."""
    total, count = sum(gains), len(gains)
    if not total:
        return [-(-lacking // count)] * count if count else []
    # Rounded up, each is less than one more than its part: one less in each of them is still less than is lacking.
    return [-(-lacking * (gained * count + total) // (2 * total * count)) for gained in gains]
