"""What happened in a run, in order, with a fingerprint: the same seed must give the same fingerprint anywhere."""

from __future__ import annotations

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
        self._before: list[str] = []
        self._lines: list[str] = []  # those that are not in the hash yet
        self.count = 0

    def note(self, event: str, *facts: Fact) -> None:
        """Facts are plain values: the text of a set or of an object differs from run to run."""
        assert _PLAIN.issuperset(map(type, facts)), f"{facts} have no text that is always the same"
        self._lines.append(f"{self._now_s():.9f} {event} {facts}\n")
        self.count += 1
        if len(self._lines) == RECENT_MAX:
            self._hash_lines()

    def _hash_lines(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._before, self._lines = self._last_lines(), []

    @property
    def fingerprint(self) -> str:
        self._hash_lines()
        return self._hash.hexdigest()

    def recent(self) -> list[str]:
        return [line.rstrip() for line in self._last_lines()]

    def _last_lines(self) -> list[str]:
        return [*self._before, *self._lines][-RECENT_MAX:]
