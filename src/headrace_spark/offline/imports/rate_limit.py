"""How fast an import may go."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
EXPECTED = "expected is a number of bytes or messages for each second, such as 10MB/s or 50000/s"


@dataclass(frozen=True, slots=True)
class Rate:
    """At most this much in a second. None: no limit."""

    bytes_per_s: float | None = None
    rows_per_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Rate:
        """`10MB/s` or `50000/s`. Raises ValueError."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)/s", text.strip())
        if not found or float(found[1]) == 0 or (found[2] and found[2].upper() not in UNITS):
            raise ValueError(f"{text!r}: {EXPECTED}")
        number, unit = float(found[1]), found[2].upper()
        return cls(bytes_per_s=number * UNITS[unit]) if unit else cls(rows_per_s=number)

    def shared_by(self, count: int) -> Rate:
        """What each of so many may do, that all together keep to it."""
        return Rate(
            None if self.bytes_per_s is None else self.bytes_per_s / count,
            None if self.rows_per_s is None else self.rows_per_s / count,
        )

    def seconds_for(self, rows: int, content_bytes: int) -> float:
        """How long this much takes at the least."""
        by_rows = 0.0 if self.rows_per_s is None else rows / self.rows_per_s
        by_bytes = 0.0 if self.bytes_per_s is None else content_bytes / self.bytes_per_s
        return max(by_rows, by_bytes)


class RateLimiter:
    """Says how long to wait before the next chunk. Lost time is not made up for: a limit holds at any moment."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._free_at_s = 0.0

    def wait_s(self, rows: int, content_bytes: int, now_s: float) -> float:
        """How long to wait before so much may be sent. It counts as sent from then on."""
        start_s = max(now_s, self._free_at_s)
        self._free_at_s = start_s + self._rate.seconds_for(rows, content_bytes)
        return start_s - now_s
