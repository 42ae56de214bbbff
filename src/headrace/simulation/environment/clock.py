"""Virtual time as one node's clocks show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import Millis

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

START_MS = 1_767_225_600_000  # 2026-01-01; any fixed date would do


class SimulatedClock:
    """The monotonic clock is the loop's. The wall clock is wrong by `skew_ms`, which may change at any time."""

    def __init__(self, loop: AbstractEventLoop, *, skew_ms: int = 0) -> None:
        self.monotonic_s = loop.time  # itself: a node asks a million times in a run
        self.skew_ms = skew_ms

    def wall_ms(self) -> Millis:
        return Millis(START_MS + int(self.monotonic_s() * 1000) + self.skew_ms)

    def jump(self, by_ms: int) -> None:
        """Somebody has set the wall clock."""
        self.skew_ms += by_ms
