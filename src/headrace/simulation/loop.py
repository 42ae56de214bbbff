"""An event loop on virtual time.

Nothing waits here: when no callback is ready, time jumps to the next timer. Chance, hash order and threads stay
outside, so the same program takes the same steps every time.

This is the only file that touches private parts of asyncio: the loop's `_selector`, `_ready`, `_scheduled`,
`_clock_resolution`, `_process_events` and `_write_to_self`, a handle's `_context` and `_scheduled`, and a task's
`_log_destroy_pending`. They are the same in CPython 3.11 to 3.14.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import math
import threading
import warnings
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

from headrace.simulation.life import OUTSIDE, HostIsDown, Life, life_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine
    from contextvars import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S = 1e-6  # timers this close are due together; still more than a float's grain after a century
TURNS_MAX = 100_000  # at one instant; honest work hands over to a timer long before
CLEANUPS_MAX = 20  # how often a dying coroutine may try to wait in its cleanup code before it is left as it is


class Deadlock(Exception):
    """Every task waits and nothing will wake one."""


class Livelock(Exception):
    """Callbacks run for ever without time moving."""


class OutOfTime(Exception):
    """The run took longer, in virtual time, than it was given."""


class VirtualLoop(asyncio.BaseEventLoop):
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, limit_s: float = math.inf) -> None:
        super().__init__()
        self._now = 0.0
        self._limit_s = limit_s
        self._clock_resolution = RESOLUTION_S
        self._selector = _Jump(self)
        self._turns_at_this_instant = 0
        self._tasks: dict[_Task[Any], None] = {}  # in order of birth; asyncio's own set follows hashes
        self._task_count = 0
        self._parked: dict[Life, list[asyncio.Handle]] = {}
        self._complaints: list[BaseException] = []
        self.between_turns: Callable[[set[Life]], None] | None = None
        """Called with those who have just run whenever everything that was ready has: a moment to look around."""
        self._running: set[Life] = set()
        self.set_exception_handler(lambda _, report: self._complain(report))

    def time(self) -> float:
        return self._now

    def finish(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end. What still lives then is stopped on the spot: the world is over."""
        task = self.create_task(main, name="main")
        task.add_done_callback(lambda _: self.stop(), context=OUTSIDE)
        try:
            self.run_forever()
            if self._complaints:
                raise self._complaints[0]
            return task.result()
        finally:
            for leftover in reversed(list(self._tasks)):
                _stop(leftover)
            self.close()

    # What belongs to which life.

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        life = life_of(context)
        if life is not None and life.is_over:
            coro.close()
            raise HostIsDown(f"{life.name} is down and starts no more tasks")
        self._task_count += 1
        task = _Task(coro, loop=self, name=name or f"task {self._task_count}", context=context, **options)
        task.life = life
        self._tasks[task] = None
        task.add_done_callback(self._forget, context=OUTSIDE)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        assert isinstance(task, _Task)
        self._tasks.pop(task, None)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        life = life_of(context)
        if life is None or not (life.is_over or life.is_suspended):
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._divert(handle, life)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        life = life_of(context)
        if life is None or not (life.is_over or life.is_suspended):
            return super().call_at(when, callback, *args, context=context)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._divert(handle, life)
        return handle

    def _divert(self, handle: asyncio.Handle, life: Life) -> None:
        if life.is_over:
            handle.cancel()
        else:
            self._parked[life].append(handle)

    def end(self, life: Life) -> None:
        """Stop everything that `life` has started, at this instant, wherever it stands.

        Its callbacks and timers never run. Its coroutines are closed, youngest first: their `finally` blocks run here
        and now, and whatever these blocks start or wait for is dropped. So no line of the dead node runs later.
        """
        life.is_over = True
        for handle in [*self._ready, *self._scheduled, *self._parked.pop(life, [])]:
            if _life_of_handle(handle) is life:
                handle.cancel()
        for task in reversed(list(self._tasks)):
            if task.life is life:
                self._tasks.pop(task)
                _stop(task)

    def suspend(self, life: Life) -> None:
        """As SIGSTOP: time goes on without it, and nothing is lost."""
        assert not life.is_over
        assert not life.is_suspended
        life.is_suspended = True
        parked = self._parked[life] = []
        for place, handle in enumerate(self._ready):
            if _life_of_handle(handle) is life:
                parked.append(handle)
                self._ready[place] = _nothing(self)  # the loop counts its ready handles: none may vanish
        timers = [handle for handle in self._scheduled if _life_of_handle(handle) is life]
        parked.extend(timers)
        self._scheduled[:] = [handle for handle in self._scheduled if _life_of_handle(handle) is not life]
        heapq.heapify(self._scheduled)

    def resume(self, life: Life) -> None:
        """As SIGCONT: what was ready runs in its old order, then what has become due."""
        life.is_suspended = False
        for handle in self._parked.pop(life):
            if isinstance(handle, asyncio.TimerHandle):
                handle._scheduled = True  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    # What asyncio asks of a loop.

    def jump(self, timeout_s: float | None) -> None:
        if self.between_turns is not None and self._running:
            self.between_turns(self._running)
        self._move_time(timeout_s)
        if self.between_turns is not None:
            self._running = self._about_to_run()

    def _about_to_run(self) -> set[Life]:
        """Whose callbacks the next turn will run: those that are ready, and those that are due by then."""
        lives = {_life_of_handle(handle) for handle in self._ready}
        timers, due_s = self._scheduled, self._now + RESOLUTION_S
        if timers and timers[0].when() <= due_s:
            places = [0]
            for place in places:  # grows: what is below a timer in the heap is not due before it
                if place < len(timers) and timers[place].when() <= due_s:
                    lives.add(_life_of_handle(timers[place]))
                    places += (2 * place + 1, 2 * place + 2)
        lives.discard(None)
        return lives  # type: ignore[return-value]

    def _move_time(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            raise Deadlock(f"nothing will ever happen again\n{self._picture()}")
        if timeout_s == 0:
            self._turns_at_this_instant += 1
            if self._turns_at_this_instant > TURNS_MAX:
                raise Livelock(f"{TURNS_MAX} turns and time has not moved\n{self._picture()}")
            return
        self._turns_at_this_instant = 0
        self._now = self._scheduled[0].when()
        if self._now > self._limit_s:
            raise OutOfTime(f"not done after {self._limit_s} virtual seconds\n{self._picture()}")

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != getattr(self, "_thread_id", None):
            _forbid_threads()
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self,
        executor: Any,  # noqa: ARG002
        func: Callable[[*Ts], T],  # noqa: ARG002
        *args: *Ts,  # noqa: ARG002
    ) -> NoReturn:
        _forbid_threads()

    # What goes wrong.

    def _complain(self, report: dict[str, Any]) -> None:
        """A callback or a forgotten task has failed. That is a bug: the run ends with it."""
        error = report.get("exception") or RuntimeError(report["message"])
        source = report.get("future", report.get("task"))
        is_from_the_dead = isinstance(source, _Task) and source.life is not None and source.life.is_over
        # A bare future whose error nobody fetched is no bug: its waiter may have been cancelled.
        is_bare_future = source is not None and not isinstance(source, _Task)
        if is_from_the_dead or is_bare_future or isinstance(error, HostIsDown):
            return
        self._complaints.append(error)
        self.stop()

    def _picture(self) -> str:
        lines = [f"at {self._now:.6f} s these tasks wait:"]
        lines.extend(f"  {task.get_name()}: {_place(task)}" for task in self._tasks)
        return "\n".join(lines)


class _Task(asyncio.Task[T]):
    life: Life | None = None


class _Jump:
    """Takes the selector's place: where a real loop would wait for sockets, time jumps."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[Any]:
        self._loop.jump(timeout_s)
        return []


def _nothing(loop: VirtualLoop) -> asyncio.Handle:
    handle = asyncio.Handle(lambda: None, (), loop, OUTSIDE)
    handle.cancel()
    return handle


def _life_of_handle(handle: asyncio.Handle) -> Life | None:
    return None if handle.cancelled() else life_of(handle._context)  # type: ignore[attr-defined]


def _stop(task: _Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it never ends, and that is meant
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    context = task.life.context if task.life is not None else OUTSIDE
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # what it was about to wait for is never awaited, and that is meant
        _close(coroutine, context)


def _close(coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
    for _ in range(CLEANUPS_MAX):
        try:
            context.copy().run(coroutine.close)
        except RuntimeError:  # its cleanup code tried to wait
            continue
        except BaseException:  # noqa: BLE001, S110 - a dying node's last words; or it is running now and unwinds itself
            pass
        return


def _place(task: _Task[Any]) -> str:
    """Where a task stands, outermost call first."""
    places: list[str] = []
    coroutine: object = task.get_coro()
    while inspect.iscoroutine(coroutine):
        if coroutine.cr_frame is not None:
            code = coroutine.cr_code
            places.append(f"{code.co_qualname} ({PurePath(code.co_filename).name}:{coroutine.cr_frame.f_lineno})")
        coroutine = coroutine.cr_await
    return " > ".join(places) or "not started"


def _forbid_threads() -> NoReturn:
    raise RuntimeError("no threads in the simulator: their timing differs from run to run; use World.threads")
