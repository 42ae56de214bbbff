"""An ordered scope for background tasks.

asyncio's TaskGroup and `wait` keep tasks in sets, whose order follows hashes: the same seed would not give the same
run in the simulator. This scope starts, fails and ends its tasks in one known order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.model.errors import Fault, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.runtime.clock import Clock

T = TypeVar("T")

REST_S_MIN: Final = 0.1  # a look at 4,000 partitions takes some 10 ms


class TaskScope:
    """Tasks that live no longer than their owner. A task that fails is reported at once, never silently."""

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        assert not self._is_closed, f"task {name} started after its scope was closed"
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def start_if_open(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """For work that somebody may ask for while the scope is being closed: then nobody needs it any more."""
        if self._is_closed:
            work.close()
        else:
            self.start(work, name)

    def __len__(self) -> int:
        return len(self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)

    async def close(self) -> None:
        """Cancel everything, latest first, and wait until each task has ended."""
        self._is_closed = True
        for task in reversed(list(self._tasks)):
            task.cancel()
            await _ended(task)


async def outlast(work: Coroutine[Any, Any, T], hurry: Callable[[], None] | None = None) -> T:
    """The result of `work`. Whoever is cancelled meanwhile hears of that only when the work has ended.

    For what goes on regardless, as a call in a thread does: a lock that guards it must not be let go before. Then it
    hears of the work's failure only if that must end the node: whoever rides out an expected no would go on for ever.
    `hurry` may tell the work that nobody wants it any more.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if hurry is not None:
            hurry()
        if not task.done():
            await _ended(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, (Refusal, Fault)):
            raise error from None
        raise


async def uninterrupted(step: Coroutine[Any, Any, None], hurry: Callable[[], None] | None = None) -> None:
    """Let a step come to its end although whoever waits for it is cancelled. A second cancel ends the step, too.

    `hurry` is called with the first: a step that might take for ever can be told that somebody waits.
    """
    task = asyncio.get_running_loop().create_task(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if hurry is not None:
            hurry()
        await task
        raise


async def _ended(task: asyncio.Task[Any]) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object) -> None:
        if not done.done():
            done.set_result(None)

    task.add_done_callback(wake)
    await done


async def rest(period_s: float) -> None:
    """Until a chore is due again: `period_s` as an operator has set it, but never so short that the loop does little
    else."""
    await asyncio.sleep(max(period_s, REST_S_MIN))


class Pace:
    """Cuts long loops on the event loop into slices of so many steps. Unlike `Breather`, by count: where time stands
    still, as in the simulator, others get their turns between the slices, too."""

    def __init__(self, steps: int) -> None:
        self._steps = self._left = steps

    async def step(self) -> None:
        self._left -= 1
        if self._left <= 0:
            await asyncio.sleep(0)
            self._left = self._steps


class Breather:
    """Cuts long loops on the event loop into slices, so that no turn lasts long.

    Call `breathe()` once per step: it gives way to others when this turn has used up its share.
    """

    SLICE_S = 0.004  # a turn over 5 ms is felt by every client of the node

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic_s()

    async def breathe(self) -> None:
        if self._clock.monotonic_s() - self._since_s >= self.SLICE_S:
            await asyncio.sleep(0)
            self._since_s = self._clock.monotonic_s()
