"""A test that hangs fails, and no more: a pytest plugin for all tests.

pytest-timeout knows each test's limit; what happens then is said here. At its limit a test is interrupted where it
stands and fails, with the stacks of all threads and tasks. Whatever hangs after that, in a `finally` or a fixture, is
interrupted again each time another grace has passed. Only a test that cannot be interrupted, as it stands in a call
that does not come back to the interpreter, ends its process in the end: faulthandler writes the stacks and leaves,
without needing the interpreter. pytest-xdist then has that test failed and the others run elsewhere, see
`lost_workers.py`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from io import StringIO
from typing import TYPE_CHECKING, Protocol

import pytest
from _pytest.outcomes import OutcomeException

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import FrameType

GRACE_S = 60.0  # enough to stop a cluster, or Spark
GRACES_BEFORE_THE_END = 3
FRAMES_SHOWN = 20  # the innermost: before them comes pytest
IDLE_S = 600.0  # workers get work, or their end, in an instant: whoever waits this long waits for ever


class OutOfTime(OutcomeException, KeyboardInterrupt):
    """A KeyboardInterrupt, for this alone gets out of wherever it strikes, and an outcome, for fixtures.

    asyncio keeps others in the task or the callback that happened to run, and Hypothesis takes them for a failing
    example and begins to look for smaller ones. And pytest closes the other fixtures when one fails with an outcome.
    """


class TimeoutSettings(Protocol):
    """What pytest-timeout has found out about a test."""

    timeout: float


class Limit:
    """One test's time, from its first fixture to its last."""

    def __init__(self, item: pytest.Item, limit_s: float, grace_s: float, last_words: int) -> None:
        self.limit_s = limit_s
        self.is_passed = False
        self.interrupts = False
        """Whether a phase of the test runs: pytest itself is left alone."""
        self._item = item
        self._grace_s = grace_s
        self._end_s = 0.0
        self._last_words = last_words

    def start(self) -> None:
        self._end_s = time.monotonic() + self.limit_s + GRACES_BEFORE_THE_END * self._grace_s
        self.set_end()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._alarm)
            signal.setitimer(signal.ITIMER_REAL, self.limit_s, self._grace_s)

    def set_end(self) -> None:
        """Of the process, unless `end` comes before."""
        left_s = max(self._end_s - time.monotonic(), self._grace_s)
        faulthandler.dump_traceback_later(left_s, exit=True, file=self._last_words)

    def end(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _alarm(self, _: int, frame: FrameType | None) -> None:
        if not self.interrupts:
            return
        if not self.is_passed:
            self._item.add_report_section(
                "call", "stacks", "\n".join((*_stacks_of_threads(frame), *_stacks_of_tasks()))
            )
        self.is_passed = True
        raise OutOfTime


LIMIT = pytest.StashKey[Limit]()
LAST_WORDS = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("timeout_grace", "seconds that a test has to clean up after its limit", default=str(GRACE_S))
    parser.addini("timeout_idle", "seconds that a worker waits for its next test", default=str(IDLE_S))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LAST_WORDS] = os.dup(2)  # while it is ours: pytest takes it during tests


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[LAST_WORDS])


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: TimeoutSettings) -> bool:
    grace_s = float(item.config.getini("timeout_grace"))
    limit = item.stash[LIMIT] = Limit(item, settings.timeout, grace_s, item.config.stash[LAST_WORDS])
    limit.start()
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> bool:
    """pytest-timeout cancels when a test has failed, and what it has to clean up may hang as well."""
    return True


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest's own use of faulthandler ends with a failure, and takes ours with it."""
    limit = node.stash.get(LIMIT, None)
    if limit is not None and not node.config.getvalue("usepdb"):
        limit.set_end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        _end(item)
        _wait_for_work(item.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    _wait_for_work(session.config)


def pytest_sessionfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Whoever looks for a bug takes the time that it takes."""
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _interrupted_at_the_limit(item))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _interrupted_at_the_limit(item))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _interrupted_at_the_limit(item))


def _interrupted_at_the_limit(item: pytest.Item) -> Generator[None, object, object]:
    """Around one phase. A test that swallowed its interruption, or went on to something else, fails all the same."""
    limit = item.stash.get(LIMIT, None)
    if limit is None:
        return (yield)
    was_passed, outcome, caught = limit.is_passed, None, None
    try:
        limit.interrupts = True
        try:
            outcome = yield
        finally:
            limit.interrupts = False
    except BaseException as error:
        if isinstance(error, OutOfTime) or (limit.is_passed and not was_passed):
            caught = error
        else:
            raise
    if caught is not None or limit.is_passed != was_passed:
        raise pytest.fail.Exception(f"it took longer than {limit.limit_s:g} s", pytrace=True) from caught
    return outcome


def _end(item: pytest.Item) -> None:
    limit = item.stash.get(LIMIT, None)
    if limit is not None:
        limit.end()
        del item.stash[LIMIT]


def _wait_for_work(config: pytest.Config) -> None:
    """In a worker of pytest-xdist: should the next test never come, the run has to end all the same."""
    if hasattr(config, "workerinput"):
        idle_s = float(config.getini("timeout_idle"))
        faulthandler.dump_traceback_later(idle_s, exit=True, file=config.stash[LAST_WORDS])


def _stacks_of_threads(interrupted: FrameType | None) -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, current in sys._current_frames().items():
        frame = interrupted if ident == threading.get_ident() else current
        if frame is not None:
            yield f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame, FRAMES_SHOWN))}"


def _stacks_of_tasks() -> Iterator[str]:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return  # no loop runs
    for task in sorted(tasks, key=lambda task: task.get_name()):
        written = StringIO()
        task.print_stack(file=written)
        yield written.getvalue()
