"""A rate as a bucket: it fills with time, what is sent is taken out, and who finds it empty waits.

What is sent may be more than the bucket holds (a batch goes whole or not at all): the rest is a debt that time pays
off first. So the rate holds on average over any few seconds, whatever the sizes. Time is the steady clock's.
"""

from __future__ import annotations

from typing import Final

HOLDS_S: Final = 0.5  # of the rate: whoever comes back that late has missed nothing
PORTION_S: Final = 0.05  # of the rate is handed out at least, so that a large rate does not become many small fetches
WAIT_MIN_S: Final = 0.001  # a wait must end later than it began, also for a clock that counts in steps


class TokenBucket:
    """Empty at first: what has just been told to be slow does not begin with a leap."""

    __slots__ = ("_level", "_rate", "_since_s")

    def __init__(self, rate: int, now_s: float) -> None:
        self._rate = rate
        self._level = 0.0
        self._since_s = now_s

    @property
    def rate(self) -> int:
        """Bytes per second."""
        return self._rate

    def change_rate(self, rate: int, now_s: float) -> None:
        """From now on. Whoever makes it faster does not wait for what was owed at the slower rate."""
        self._fill(now_s)
        if rate > self._rate:
            self._level = max(self._level, 0.0)
        self._rate = rate

    def room(self, now_s: float) -> int:
        """How much may be sent now; 0 while it is better to wait."""
        self._fill(now_s)
        return int(self._level) if self._level >= max(1.0, self._rate * PORTION_S) else 0

    def took(self, count: int, now_s: float) -> None:
        self._fill(now_s)
        self._level -= count

    def ready_in_s(self, now_s: float) -> float:
        """When there is room again. Infinite if nothing may be sent at all."""
        self._fill(now_s)
        if not self._rate:
            return float("inf")
        lacking = max(1.0, self._rate * PORTION_S) - self._level
        return max(lacking / self._rate, WAIT_MIN_S) if lacking > 0 else 0.0

    def _fill(self, now_s: float) -> None:
        self._level = min(self._level + (now_s - self._since_s) * self._rate, max(1.0, self._rate * HOLDS_S))
        self._since_s = now_s
