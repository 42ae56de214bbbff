"""Work of which only a little may go on at a time, and who is next.

Whoever asks most often must not be served most often: those who wait stand in lines, one for each address, and the
lines are served in turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class FairQueue:
    """So many `places`. Between two turns in the same place everybody else on the loop has had one."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        if self._free and not self._lines:
            self._free -= 1
        else:
            await self._stand_in_line(address)
        try:
            yield
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        """Not at once: whoever needs no `await` in its turn would be followed by all the others in the same moment."""
        asyncio.get_running_loop().call_soon(self._call_next)

    async def _stand_in_line(self, address: str) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(address, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._leave_line(address, called)
            else:
                self._end_turn()  # it was called in the same moment, and does not come
            raise

    def _call_next(self) -> None:
        while self._lines:
            address, line = next(iter(self._lines.items()))
            called = line.popleft()
            self._lines.move_to_end(address)
            if not line:
                del self._lines[address]
            if not called.done():  # else it was cancelled, and has not come to leave the line yet
                called.set_result(None)
                return
        self._free += 1

    def _leave_line(self, address: str, called: asyncio.Future[None]) -> None:
        line = self._lines.get(address, deque())
        if called in line:
            line.remove(called)
            if not line:
                del self._lines[address]
