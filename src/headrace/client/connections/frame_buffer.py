"""Where a client's answers arrive. Small ones share a buffer; a large one is received straight into its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.frames import FRAME_BYTES_MAX, LENGTH_SIZE, frame_length

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_SIZE = 64 * 1024  # holds many small answers; anything larger deserves a buffer without a copy


class FrameBuffer:
    """Cuts a stream into frames. A frame that it hands out is never touched again, so views of it may be kept."""

    __slots__ = ("_bytes_max", "_end", "_filled", "_large", "_shared", "_start")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._shared = memoryview(bytearray(SHARED_SIZE))
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    def room(self) -> memoryview:
        """Space for the next bytes; never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        if self._start:
            waiting = self._end - self._start
            self._shared[:waiting] = self._shared[self._start : self._end]
            self._start, self._end = 0, waiting
        return self._shared[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """Every frame that the new bytes complete, without its length. Raises Malformed."""
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                yield self._large
                self._large = None
            return
        self._end += count
        while self._end - self._start >= LENGTH_SIZE:
            length = frame_length(self._shared, self._start, self._bytes_max)
            start = self._start + LENGTH_SIZE
            if start + length <= self._end:
                self._start = start + length
                yield memoryview(bytes(self._shared[start : self._start]))
            elif length > SHARED_SIZE - LENGTH_SIZE:
                self._begin_large(start, length)
                return
            else:
                return

    def _begin_large(self, start: int, length: int) -> None:
        large = memoryview(bytearray(length))
        self._filled = self._end - start
        large[: self._filled] = self._shared[start : self._end]
        self._large = large
        self._start = self._end = 0
