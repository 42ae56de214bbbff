"""Time. Timers belong to the event loop; this is for reading a clock."""

from __future__ import annotations

import time
from typing import Protocol

from headrace.model.names import Millis


class Clock(Protocol):
    def wall_ms(self) -> Millis:
        """Milliseconds since 1970. May jump; good for records and retention, never for safety."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from some start; never goes back."""
        ...


class SystemClock:
    def wall_ms(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def monotonic_s(self) -> float:
        return time.monotonic()
