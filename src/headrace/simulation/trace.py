"""What happened in a run, in order, with a fingerprint: the same seed must give the same fingerprint anywhere."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Fact = str | int | float | bytes

_PLAIN = frozenset({str, int, float, bytes})
RECENT_MAX = 500  # enough to see what led to a failure; a long run would fill memory


class Trace:
    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._hash = blake2b(digest_size=16)
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)
        self.count = 0

    def note(self, event: str, *facts: Fact) -> None:
        """Facts are plain values: the text of a set or of an object differs from run to run."""
        assert _PLAIN.issuperset(map(type, facts)), f"{facts} have no text that is always the same"
        line = f"{self._now_s():.9f} {event} {facts}\n"
        self._hash.update(line.encode())
        self._recent.append(line)
        self.count += 1

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def recent(self) -> list[str]:
        return [line.rstrip() for line in self._recent]
