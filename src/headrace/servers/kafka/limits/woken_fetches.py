"""Long polls that one append has woken: a few are looked at in the turn of whoever wrote, the others in turns of their
own. A thousand consumers of one partition would hold up everybody else otherwise, for as long as all of their answers
take together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

AT_ONCE: Final = 32  # looks in one turn: a millisecond, if each of them has something to send


class WaitingFetch(Protocol):
    def look(self) -> None: ...


class WokenFetches:
    """Of one listener. Whoever is woken is looked at once, in the order of the wakes."""

    def __init__(self) -> None:
        self._line: deque[WaitingFetch] = deque()
        self._looks = 0
        """In this turn, or in the last few if nobody had to wait for one."""
        self._is_turn_planned = False

    def __len__(self) -> int:
        """How many wait for a turn."""
        return len(self._line)

    def wake(self, fetch: WaitingFetch) -> None:
        if self._looks < AT_ONCE and not self._line:
            self._looks += 1
            fetch.look()
        else:
            self._line.append(fetch)
        if self._looks == AT_ONCE and not self._is_turn_planned:
            self._plan_turn()

    def _plan_turn(self) -> None:
        self._is_turn_planned = True
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_planned = False
        self._looks = min(AT_ONCE, len(self._line))
        for _ in range(self._looks):
            self._line.popleft().look()
        if self._line:
            self._plan_turn()
