"""Threads that are none: a call takes virtual time, and happens at one instant of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.runtime.threads import GENERAL, GENERAL_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from headrace.simulation.environment.life import Life

T = TypeVar("T")

DELAY_S = (0.00005, 0.005)  # before and after a call, each; about what an fsync takes on a good and on a bad day
LONG_FRACTION = 0.02  # of all delays are far longer, as under load
LONG_FACTOR = 20


class SimulatedThreads:
    """As in production, a lane has a fixed number of threads and calls wait in order for a free one.

    All timers belong to the node's life. When it ends, a call that has not happened never does, and a call that has
    happened never returns.
    """

    def __init__(self, random: Random, life: Life) -> None:
        self._random = random
        self._life = life
        self._lanes: dict[str, _Lane] = {}
        self._not_yet_performed: dict[_Job, None] = {}
        self._is_closed = False
        self.slowness: dict[str, float] = {}
        """By lane, how many times longer everything takes: a slow disk is a slow lane."""

    async def run(self, call: Callable[[], T], *, lane: str = GENERAL) -> T:
        self._life.check()
        if self._is_closed:
            raise RuntimeError("no more calls: these threads are closed")
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = _Lane(lane, GENERAL_WORKERS if lane == GENERAL else 1)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _Job(call, done)
        self._not_yet_performed[job] = None
        queue.jobs.append(job)
        self._start_next(queue)
        return await done

    def breathe(self) -> None:
        """Nobody waits meanwhile: a call takes no time but that before and after it."""

    def close(self) -> None:
        """As in production, every call that waits is made before this returns."""
        self._life.check()
        self._is_closed = True
        for job in list(self._not_yet_performed):
            self._perform(job)

    def _start_next(self, lane: _Lane) -> None:
        while lane.idle and lane.jobs:
            job = lane.jobs.popleft()
            if job.done.cancelled():
                self._not_yet_performed.pop(job, None)
                continue
            lane.idle -= 1
            job.is_started = True
            self._later(lane, self._work, lane, job)

    def _work(self, lane: _Lane, job: _Job) -> None:
        self._perform(job)
        self._later(lane, self._hand_over, lane, job)

    def _perform(self, job: _Job) -> None:
        if job not in self._not_yet_performed:
            return
        self._not_yet_performed.pop(job)
        if not job.done.cancelled() or job.is_started:  # a thread that has begun does not see the cancellation
            self._life.is_in_thread = True
            try:
                job.perform()
            finally:
                self._life.is_in_thread = False

    def _hand_over(self, lane: _Lane, job: _Job) -> None:
        job.hand_over()
        lane.idle += 1
        self._start_next(lane)

    def _later(self, lane: _Lane, step: Callable[..., None], *args: Any) -> None:
        delay_s = self._random.uniform(*DELAY_S) * self.slowness.get(lane.name, 1.0)
        if self._random.random() < LONG_FRACTION:
            delay_s *= LONG_FACTOR
        asyncio.get_running_loop().call_later(delay_s, step, *args)


class _Lane:
    __slots__ = ("idle", "jobs", "name")

    def __init__(self, name: str, workers: int) -> None:
        self.name = name
        self.idle = workers
        self.jobs: deque[_Job] = deque()


class _Job:
    __slots__ = ("_call", "_error", "_result", "done", "is_started")

    def __init__(self, call: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self._call = call
        self._result: object = None
        self._error: Exception | None = None
        self.done = done
        self.is_started = False

    def perform(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self._error = error

    def hand_over(self) -> None:
        if self.done.cancelled():
            return
        if self._error is None:
            self.done.set_result(self._result)
        else:
            self.done.set_exception(self._error)
