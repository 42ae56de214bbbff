"""Where a connection's bytes arrive: one reused buffer that grows only as bytes really come."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from headrace.runtime.writable_bytes import writable_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 16 * 1024  # most clients never need more; 10,000 connections that have spoken cost 160 MB less than with 32 KiB
BUSY = 64 * 1024  # for a client that fills a small one: more requests share a write and a turn
LARGE_FRAME = 64 * 1024  # from here on a frame is read exactly to its end, so that its successor is never moved
KEPT_MAX = 4 << 20  # a producer sends batches of up to a few MB again and again; what grew beyond that goes at once
GROWTH = 4  # up to `KEPT_MAX`; so a client makes us take at most four times the memory of what it has really sent

_LENGTH = Struct(">i")


class ReceiveBuffer:
    """Bytes between `start` and `end` are received and not yet served.

    A client that announces a huge frame gets memory as it sends, not as it promises; one that is silent gets none.
    Before more is read into a buffer that is full, `frame_beyond` says for which frame it would grow beyond `BUSY`;
    `on_small` hears that it has shrunk again.
    """

    __slots__ = ("_frame_end", "_most_used", "_on_small", "end", "is_full", "raw", "start", "view")

    def __init__(self, on_small: Callable[[], None] = lambda: None) -> None:
        self._on_small = on_small
        self.raw, self.view = writable_bytes(0)
        self.start = 0
        self.end = 0
        self._most_used = 0
        self._frame_end = 0
        self.is_full = False
        """The last read left no room."""

    @property
    def is_inside_a_frame(self) -> bool:
        """True if all that waits is the beginning of one large frame: there is nothing to serve yet."""
        return self.end < self._frame_end

    @property
    def capacity(self) -> int:
        return len(self.raw)

    def room(self) -> memoryview:
        """Space for the next bytes; never empty."""
        waiting = self.end - self.start
        if waiting == 0:
            self.start = self.end = self._frame_end = 0
            if not 0 < len(self.raw) <= KEPT_MAX:
                self._replace(SMALL)
            elif self.is_full and len(self.raw) < BUSY:
                self._replace(BUSY)
            return self.view
        if waiting < 4:
            if len(self.raw) - self.end < 4:
                self._move_to_front()
            return self.view[self.end :]
        frame_size = 4 + int(_LENGTH.unpack_from(self.raw, self.start)[0])
        if self.start + frame_size > len(self.raw):
            self._make_room(frame_size)
        if frame_size > LARGE_FRAME:
            self._frame_end = self.start + frame_size
            return self.view[self.end : self._frame_end]
        self._frame_end = 0
        return self.view[self.end :]

    def frame_beyond(self) -> int:
        """The size of the frame that is arriving, if the next `room()` would take memory beyond `BUSY` for it; or 0."""
        waiting, capacity = self.end - self.start, len(self.raw)
        if self.end < capacity or capacity < BUSY or waiting < 4:
            return 0
        frame_size = 4 + int(_LENGTH.unpack_from(self.raw, self.start)[0])
        return frame_size if frame_size > capacity else 0

    def filled(self, count: int) -> None:
        """The first `count` bytes of the last `room()` hold something."""
        self.end += count
        if self.end > self._most_used:  # noqa: PLR1730 - max() costs three times as much, per read
            self._most_used = self.end
        self.is_full = self.end == len(self.raw)

    def shrink(self) -> None:
        """Give memory back that was not used since the last call, if nothing is waiting in it."""
        used, self._most_used = self._most_used, 0
        if self.start < self.end:
            return
        if used == 0:
            self.forget()
        elif used <= SMALL < len(self.raw):
            self._replace(SMALL)

    def shrink_if_idle(self) -> None:
        """Give back what is only kept for the next large frame."""
        if self.start == self.end and len(self.raw) > BUSY:
            self.forget()

    def forget(self) -> None:
        """Give all memory back, and what was waiting with it."""
        self._replace(0)

    def _make_room(self, frame_size: int) -> None:
        if frame_size <= len(self.raw):
            self._move_to_front()
        elif self.end == len(self.raw):
            waiting = self.view[self.start : self.end]
            size = len(self.raw) * GROWTH
            # Beyond what is kept all of it at once, for memory that nobody has written to costs nothing. To copy what
            # has come of 100 MB, again and again, would hold everybody up.
            self._replace(frame_size if size > KEPT_MAX else min(frame_size, size))
            self.view[: len(waiting)] = waiting
            self.end = len(waiting)

    def _replace(self, size: int) -> None:
        has_shrunk = len(self.raw) > BUSY >= size
        self.raw, self.view = writable_bytes(size)
        self.start = self.end = self._frame_end = 0
        self.is_full = False
        if has_shrunk:
            self._on_small()

    def _move_to_front(self) -> None:
        waiting = self.end - self.start
        self.view[:waiting] = self.view[self.start : self.end]
        self.start, self.end, self._frame_end = 0, waiting, 0
