"""Blocking work off the loop. In the simulator a call takes seeded virtual time instead."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

GENERAL = "general"
GENERAL_WORKERS = 4  # recovery, checkpoints and cold reads; more would only queue at the disk
BREATH_S = 0.0001  # a sleep of no time at all would be over before the loop's thread has woken up


class Threads(Protocol):
    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        """Run `call` in a thread. Every lane but `GENERAL` is one thread, so its calls run in order."""
        ...

    def breathe(self) -> None:
        """For a call that computes long: let the loop have its turn. Python runs one thread at a time, and one that
        never waits hands over only when it is made to, 5 ms after somebody asked."""
        ...

    def close(self) -> None:
        """Return when every call that waits has been made; take no more."""
        ...


class OneLane:
    """All calls in one lane, so that they wait for nobody in another."""

    def __init__(self, threads: Threads, lane: str) -> None:
        self._threads = threads
        self._lane = lane

    async def run(self, call: Callable[[], T], *, lane: str = "") -> T:  # noqa: ARG002 - there is but one
        return await self._threads.run(call, lane=self._lane)

    def breathe(self) -> None:
        self._threads.breathe()

    def close(self) -> None:
        """Whoever made the threads closes them."""


class SystemThreads:
    def __init__(self) -> None:
        self._lanes: dict[str, ThreadPoolExecutor] = {}
        self._is_closed = False

    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._lane(lane), call)

    def breathe(self) -> None:
        time.sleep(BREATH_S)

    def close(self) -> None:
        self._is_closed = True
        for pool in self._lanes.values():
            pool.shutdown(wait=True)

    def _lane(self, lane: str) -> ThreadPoolExecutor:
        if self._is_closed:  # a lane not used before would start a thread that nobody ends
            raise RuntimeError("no more calls: these threads are closed")
        pool = self._lanes.get(lane)
        if pool is None:
            workers = GENERAL_WORKERS if lane == GENERAL else 1
            pool = self._lanes[lane] = ThreadPoolExecutor(workers, thread_name_prefix=f"headrace-{lane}")
        return pool
