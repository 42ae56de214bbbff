"""Memory for answers that nobody reads: how much of it all clients of a listener may take together.

A client may leave a few megabytes unread, and a thousand of them gigabytes. So if all together leave more than a limit,
each may leave less before its next request is looked at, and whoever reads nothing at all loses its connection. Records
do not count: they leave from their files.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

OUTBOUND_MAX: Final = 4 << 20  # bytes of answers that wait for an earlier one, or for the client to read
OUTBOUND_SHORT: Final = 64 << 10  # the same while all together have too many; most clients never have that much unread
TOTAL_MAX: Final = 64 << 20  # sixteen clients may be as deaf as they like; a node needs its memory for others
LOOK_S: Final = 1.0
DEAF_LOOKS: Final = 3  # without one byte taken. TCP needs that long to say that its peer has no room


class AnswerMemory:
    """Counts; whoever makes answers asks for its `allowance`."""

    __slots__ = ("_has_room", "_on_short", "allowance", "total")

    def __init__(self, on_short: Callable[[], None] = lambda: None) -> None:
        self._on_short = on_short
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.total = 0
        self.allowance = OUTBOUND_MAX
        """What one connection may leave unread."""

    @property
    def is_short(self) -> bool:
        return self.allowance < OUTBOUND_MAX

    def changed(self, more: int) -> None:
        self.total += more
        was_short = self.is_short
        self.allowance = OUTBOUND_SHORT if self.total > TOTAL_MAX else OUTBOUND_MAX
        if self.is_short and not was_short:
            self._has_room.clear()
            self._on_short()
        elif was_short and not self.is_short:
            self._has_room.set()

    async def has_room(self) -> None:
        """Before an answer is made that may be large: until those that nobody reads have become fewer. Whoever reads
        nothing at all is gone after a few seconds."""
        await self._has_room.wait()


class Unread:
    """What one connection's client has not read, in answers that take memory."""

    __slots__ = ("_counted", "_looks", "_memory", "_queued", "made")

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self.made = 0
        """Bytes of answers made since everything was last sent; no fewer than are in memory."""
        self._counted = 0
        self._queued = 0
        self._looks = 0

    def count(self) -> None:
        """Something was made or sent."""
        if self.made != self._counted:
            more, self._counted = self.made - self._counted, self.made
            self._memory.changed(more)

    def forget(self) -> None:
        self.made = 0
        self.count()

    def is_deaf(self, queued_bytes: int) -> bool:
        """Asked every `LOOK_S` while memory is short. True if the client has taken nothing for too long."""
        self._looks = self._looks + 1 if queued_bytes and queued_bytes == self._queued else 0
        self._queued = queued_bytes
        return self._looks >= DEAF_LOOKS and self._counted > OUTBOUND_SHORT
