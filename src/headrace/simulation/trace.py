"""What happened in a run, in order, with a fingerprint: the same seed must give the same fingerprint anywhere."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Fact = str | int | float | bytes

_PLAIN = (int, float, bytes)
RECENT_MAX = 500  # enough to see what led to a failure; a long run would fill memory


class Trace:
    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._hash = blake2b(digest_size=16)
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)
        self.count = 0

    def note(self, event: str, *facts: Fact) -> None:
        """Facts are plain values: the text of a set or of an object differs from run to run."""
        line = f"{self._now_s():.9f} {event} {' '.join(map(_text, facts))}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._recent.append(line)
        self.count += 1

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def recent(self) -> list[str]:
        return list(self._recent)


def _text(fact: Fact) -> str:
    if isinstance(fact, str):  # most of them are
        return fact
    assert isinstance(fact, _PLAIN), f"{type(fact).__name__} has no text that is always the same"
    return fact.hex() if isinstance(fact, bytes) else str(fact)
