"""Opens clients' batches beside the loop, where they may take as long as they like.

Two kinds of threads. Nearly all batches are done in a few milliseconds, in one of the quick threads. What turns out to
unfold to more, or to hold a million records, is begun anew in a slow one, all of them one after the other: the memory
of one bomb is all that they take. Clients take turns at both, address by address, and a turn is over after some
milliseconds: somebody who sends a thousand batches waits behind his own.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from headrace.model.errors import Refusal
from headrace.runtime.fair_queue import FairQueue
from headrace.runtime.tasks import outlast
from headrace.wire.batches.examination import (
    IS_COMPILED,
    SLICE_STEPS,
    Allowance,
    Examined,
    TakesLong,
    examine,
    rejected,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from headrace.runtime.clock import Clock
    from headrace.runtime.threads import Threads
    from headrace.wire.batches.examination import Demands, Rejected, Unopened
    from headrace.wire.batches.header import BatchHeader

    Look = Examined | Rejected | None
    """None if it takes longer than is allowed."""

QUICK_THREADS: Final = 2  # unpacking runs without the interpreter's lock, so more than one is of use
QUICK_RECORDS: Final = 500_000 if IS_COMPILED else 10_000
QUICK_STREAM: Final = 17 << 16  # bytes that are unpacked, or packed: a little more than max.message.bytes usually is
QUICK_INFLATE: Final = 8 << 20  # a batch of a megabyte that was packed well
QUICK_S: Final = 0.01  # after so long the next one's turn comes
BREATHE_AFTER_S: Final = 0.0005  # of small batches, none of which is long enough for a pause inside it
INFLATE_MAX: Final = 64 << 20  # what a batch may unfold to; more is a bomb
REPACKED_MAX: Final = 4 << 20  # bytes that were packed anew and wait for the others of their turn
SLOW_LANE: Final = "examine-slowly"


class Examiner:
    def __init__(self, threads: Threads, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._idle_lanes = [f"examine-{number}" for number in reversed(range(QUICK_THREADS))]
        self._quick_turns, self._slow_turns = FairQueue(QUICK_THREADS), FairQueue(1)
        self._quick = Allowance(QUICK_RECORDS, QUICK_STREAM, QUICK_INFLATE, SLICE_STEPS, threads.breathe)
        self._slow = Allowance(QUICK_RECORDS, QUICK_STREAM, INFLATE_MAX, SLICE_STEPS, threads.breathe, is_last=True)

    async def examine(self, batches: Sequence[Unopened], address: str) -> list[Examined | Rejected]:
        """Look at batches of a client at that address, which nobody changes meanwhile: the first few of them, as many
        as one turn allows. Whoever is cancelled hears of it when nobody looks any more."""
        async with self._quick_lane(address) as lane:
            looks = await self._run(batches, self._quick, lane)
        found: list[Examined | Rejected] = []
        for unopened, look in zip(batches, looks, strict=False):
            if look is None:
                found.append(await self._look_slowly(unopened, address))
                break
            found.append(look)
        return found

    @asynccontextmanager
    async def _quick_lane(self, address: str) -> AsyncIterator[str]:
        async with self._quick_turns.turn(address):
            lane = self._idle_lanes.pop()
            try:
                yield lane
            finally:
                self._idle_lanes.append(lane)

    async def _look_slowly(self, unopened: Unopened, address: str) -> Examined | Rejected:
        async with self._slow_turns.turn(address):
            (look,) = await self._run([unopened], self._slow, SLOW_LANE)
        assert look is not None, "the last look always finds something"
        return look

    async def _run(self, batches: Sequence[Unopened], allowance: Allowance, lane: str) -> list[Look]:
        job = _Job(batches, allowance, self._clock)
        return await outlast(self._threads.run(job.run, lane=lane), job.stop)


class _Stopped(Exception):
    """Nobody waits for it any more."""


class _Job:
    """One turn in a thread."""

    def __init__(self, batches: Sequence[Unopened], allowance: Allowance, clock: Clock) -> None:
        self._batches = batches
        self._allowance = allowance
        self._clock = clock
        self._is_stopped = False

    def stop(self) -> None:
        """For the loop's thread: end it soon."""
        self._is_stopped = True

    def run(self) -> list[Look]:
        looks: list[Look] = []
        # Kept by nobody: the job would hold itself, and a client's bytes, until a garbage collector came by.
        allowance = self._allowance._replace(pause=self._pause)
        try:
            self._look_at_some(looks, allowance)
        except _Stopped:
            return []
        return looks

    def _look_at_some(self, looks: list[Look], allowance: Allowance) -> None:
        now_s = breathed_s = self._clock.monotonic_s()
        until_s = now_s + QUICK_S
        repacked = 0
        for unopened in self._batches:
            look = _look(*unopened, allowance)
            looks.append(look)
            if isinstance(look, Examined) and look.repacked is not None:
                repacked += len(look.repacked)
            now_s = self._clock.monotonic_s()
            if repacked > REPACKED_MAX or now_s >= until_s:
                return
            if now_s - breathed_s > BREATHE_AFTER_S:
                self._pause()
                breathed_s = now_s

    def _pause(self) -> None:
        if self._is_stopped:
            raise _Stopped
        self._allowance.pause()


def _look(batch: memoryview, header: BatchHeader, demands: Demands, allowance: Allowance) -> Look:
    try:
        return examine(batch, header, demands, allowance)
    except Refusal as refusal:
        return rejected(refusal)
    except TakesLong:
        return None
