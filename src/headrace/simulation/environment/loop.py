"""An event loop on virtual time.

Nothing waits here: when no callback is ready, time jumps to the next timer. Chance, hash order and threads stay
outside, so the same program takes the same steps every time.

This is the only file that touches private parts of asyncio: the loop's `_run_once`, `_write_to_self` and
`_asyncgen_finalizer_hook`, and a task's `_log_destroy_pending`. They are the same in CPython 3.11 to 3.14. Its queue,
its timers and its handles are our own, because each carries the life that it belongs to, and because a run has half a
million turns.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import math
import sys
import threading
import warnings
from collections import Counter, deque
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

from headrace.simulation.environment.life import LIFE, OUTSIDE, HostIsDown, Life

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextvars import Context
    from types import AsyncGeneratorType

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S = 1e-6  # timers this close are due together; still more than a float's grain after a century
TURNS_MAX = 100_000  # at one instant; honest work hands over to a timer long before
CANCELLED_MIN = 1_000  # timers: fewer that never ring are not worth a search for them
TASKS_MIN = 200  # fewer are not worth a search for those that have ended
CLEANUPS_MAX = 20  # how often a dying coroutine may try to wait in its cleanup code before it is left as it is


class Deadlock(Exception):
    """Every task waits and nothing will wake one."""


class Livelock(Exception):
    """Callbacks run for ever without time moving."""


class OutOfTime(Exception):
    """The run took longer, in virtual time, than it was given."""


class Errand:
    """A callback that is ready, or waits for its time. To asyncio it is a handle."""

    __slots__ = ("_loop", "_when_s", "args", "callback", "context", "is_cancelled", "life")

    def __init__(
        self,
        loop: VirtualLoop,
        life: Life | None,
        context: Context,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        when_s: float | None = None,
    ) -> None:
        self._loop = loop
        self._when_s = when_s
        self.life = life
        self.context = context
        self.callback = callback
        self.args = args
        self.is_cancelled = False

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback, self.args = _nothing, ()  # what they hold may be large, and timers stay for long
            if self._when_s is not None:
                self._loop.cancelled_timers += 1

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        assert self._when_s is not None, "only a timer has a time"
        return self._when_s


_Timer = tuple[float, int, Errand]
"""When it rings, and its number: of two that ring at once, the older one rings first."""


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, limit_s: float = math.inf) -> None:
        super().__init__()
        self._now = 0.0
        self._limit_s = limit_s
        self._queue: deque[Errand] = deque()
        self._timers: list[_Timer] = []
        self._timer_count = 0
        self.cancelled_timers = 0
        """Of those that still wait for their time, or are parked; their errands count themselves."""
        self._turns_at_this_instant = 0
        self._tasks: dict[_Task[Any], None] = {}  # in order of birth; asyncio's own set follows hashes
        self._sweep_at = TASKS_MIN
        self._task_count = 0
        self._parked: dict[Life, tuple[list[Errand], list[_Timer]]] = {}
        self._complaints: list[BaseException] = []
        self.between_turns: Callable[[set[Life]], None] | None = None
        """Called with those who have just run whenever everything that was ready has: a moment to look around."""
        self._have_run: set[Life | None] = set()
        self.set_exception_handler(lambda _, report: self._complain(report))

    def time(self) -> float:
        return self._now

    def finish(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end. What still lives then is stopped on the spot: the world is over."""
        task = self.create_task(main, name="main")
        task.add_done_callback(lambda _: self.stop(), context=OUTSIDE)
        try:
            self.run_forever()
            self._forget_ended()
            if self._complaints:
                raise self._complaints[0]
            return task.result()
        finally:
            for leftover in reversed(list(self._tasks)):
                if not leftover.done():
                    _stop(leftover)
            self.close()

    # What belongs to which life.

    def create_task(  # type: ignore[override]  # asyncio's own takes generators too
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is not None and life.is_over:
            coro.close()
            raise HostIsDown(f"{life.name} is down and starts no more tasks")
        self._task_count += 1
        task = _Task(coro, loop=self, name=name or f"task {self._task_count}", context=context, **options)
        task.life = life
        self._tasks[task] = None
        if len(self._tasks) >= self._sweep_at:
            self._forget_ended()
        return task

    def _forget_ended(self) -> None:
        """Every now and then: a callback at the end of each task would cost a turn.

        Whoever failed unseen complains now, for nobody holds it any more.
        """
        self._tasks = {task: None for task in self._tasks if not task.done()}
        self._sweep_at = max(TASKS_MIN, 2 * len(self._tasks))

    def call_soon(  # type: ignore[override]  # asyncio only cancels what it is given
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Errand:
        if context is None:
            context = copy_context()
        life = context.get(LIFE)
        errand = Errand(self, life, context, callback, args)
        if life is None or life.is_running:
            self._queue.append(errand)
        elif life.is_suspended:
            self._parked[life][0].append(errand)
        else:
            errand.cancel()
        return errand

    def call_later(  # type: ignore[override]  # as call_soon
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Errand:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as call_soon
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Errand:
        if context is None:
            context = copy_context()
        life = context.get(LIFE)
        errand = Errand(self, life, context, callback, args, when)
        self._timer_count += 1
        timer = (when, self._timer_count, errand)
        if life is None or life.is_running:
            heapq.heappush(self._timers, timer)
        elif life.is_suspended:
            self._parked[life][1].append(timer)
        else:
            errand.cancel()
        return errand

    def call_now(self, life: Life, callback: Callable[[], object]) -> None:
        """For what comes from outside: run it in this very turn as part of `life`, or once it goes on."""
        if life.is_running:
            self._have_run.add(life)
            life.context.run(callback)
        else:
            self.call_soon(callback, context=life.context)

    def end(self, life: Life) -> None:
        """Stop everything that `life` has started, at this instant, wherever it stands.

        Its callbacks and timers never run. Its coroutines are closed, youngest first: their `finally` blocks run here
        and now, and whatever these blocks start or wait for is dropped. So no line of the dead node runs later.
        """
        life.end()
        ready, timers = self._parked.pop(life, ([], []))
        for errand in (*self._queue, *ready, *(timer[2] for timer in (*self._timers, *timers))):
            if errand.life is life:
                errand.cancel()
        for task in reversed(list(self._tasks)):
            if task.life is life:
                del self._tasks[task]
                if not task.done():
                    _stop(task)

    def suspend(self, life: Life) -> None:
        """As SIGSTOP: time goes on without it, and nothing is lost."""
        life.suspend()
        ready = [errand for errand in self._queue if errand.life is life]
        for place, errand in enumerate(self._queue):
            if errand.life is life:
                self._queue[place] = self._blank()  # a turn counts what is ready: none may vanish
        self._parked[life] = ready, [timer for timer in self._timers if timer[2].life is life]
        self._timers[:] = [timer for timer in self._timers if timer[2].life is not life]
        heapq.heapify(self._timers)

    def _blank(self) -> Errand:
        errand = Errand(self, None, OUTSIDE, _nothing, ())
        errand.cancel()
        return errand

    def resume(self, life: Life) -> None:
        """As SIGCONT: what was ready runs in its old order, then what has become due."""
        life.resume(self._now)
        ready, timers = self._parked.pop(life)
        self._queue.extend(ready)
        for timer in timers:
            heapq.heappush(self._timers, timer)

    # Turns and time.

    def _run_once(self) -> None:
        """One turn: everything that is ready or due now, and nothing that this makes ready."""
        queue, timers = self._queue, self._timers
        self._turns_at_this_instant += 1
        if not queue:
            self._move_time()
        if self._turns_at_this_instant > TURNS_MAX:
            raise Livelock(f"{TURNS_MAX} turns and time has not moved\n{self._picture()}")
        due_s = self._now + RESOLUTION_S
        while timers and timers[0][0] < due_s:
            queue.append(heapq.heappop(timers)[2])
        have_run = self._have_run
        for _ in range(len(queue)):
            errand = queue.popleft()
            if not errand.is_cancelled:
                have_run.add(errand.life)
                try:
                    errand.context.run(errand.callback, *errand.args)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # noqa: BLE001 - a callback has failed; the run ends with it
                    self.call_exception_handler({"message": f"{errand.callback} has failed", "exception": error})
        if self.between_turns is not None:
            have_run.discard(None)
            if have_run:
                self.between_turns(have_run)  # type: ignore[arg-type]  # None is not in it
        have_run.clear()

    def _move_time(self) -> None:
        """Nothing is ready: on to the next timer, which may be due already."""
        timers = self._timers
        if self.cancelled_timers > CANCELLED_MIN and 2 * self.cancelled_timers > len(timers):
            timers[:] = [timer for timer in timers if not timer[2].is_cancelled]
            heapq.heapify(timers)
            self.cancelled_timers = 0
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing will ever happen again\n{self._picture()}")
        if timers[0][0] <= self._now:
            return
        self._turns_at_this_instant = 0
        self._now = timers[0][0]
        if self._now > self._limit_s:
            raise OutOfTime(f"not done after {self._limit_s} virtual seconds\n{self._picture()}")

    # What asyncio asks of a loop.

    def _write_to_self(self) -> None: ...

    def _asyncgen_finalizer_hook(self, agen: AsyncGeneratorType[Any, Any]) -> None:
        """Somebody's generator is garbage. If it was in the middle of a step, its process has died over it, and does
        not tidy up."""
        if not agen.ag_running:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]  # it is private

    def call_soon_threadsafe(  # type: ignore[override]  # as call_soon
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Errand:
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
        """Where every task stands; thousands may stand at one place."""
        places = Counter(f"{task.get_name()}: {_place(task)}" for task in self._tasks if not task.done())
        lines = (f"  {place}" + (f" (and {count - 1:,} more)" if count > 1 else "") for place, count in places.items())
        return "\n".join([f"at {self._now:.6f} s these tasks wait:", *lines])


class _Task(asyncio.Task[T]):
    life: Life | None = None


def _nothing() -> None: ...


def _stop(task: _Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it never ends, and that is meant
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    context = task.life.context if task.life is not None else OUTSIDE
    with warnings.catch_warnings(), _last_words_unheard():
        # What it was about to wait for is never awaited, and that is meant.
        warnings.simplefilter("ignore", RuntimeWarning)
        _close(coroutine, context)


@contextmanager
def _last_words_unheard() -> Iterator[None]:
    """A coroutine inside the one that is closed may be gone only after it tried to wait once more."""
    hear = sys.unraisablehook
    sys.unraisablehook = lambda event: None if is_last_word(event) else hear(event)
    try:
        yield
    finally:
        sys.unraisablehook = hear


def is_last_word(event: sys.UnraisableHookArgs) -> bool:
    """A killed process ends in the middle: that its coroutines would have awaited more is no news."""
    return "coroutine ignored GeneratorExit" in str(event.exc_value)


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
