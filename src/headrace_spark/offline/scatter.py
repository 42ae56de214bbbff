"""Shares work out over Spark's executors, and hears of each thing done as soon as it is.

A task that meets trouble of the expected kind hands it back as a value. Raised, it would be repeated by Spark, four
times on a cluster, and told in two pages of Java. What nobody expected is raised, and Spark treats it as it treats
every failing task.
"""

from __future__ import annotations

import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException

from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.header import CorruptBatch
from headrace_spark.offline.errors import OfflineFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

LOOK_EVERY_S: Final = 0.2  # as often as an eye sees a bar move
TASKS_MAX: Final = 1000  # up to here each item gets a task; beyond, Spark's own work for so many would show


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a task gave up, in words."""

    what: str
    hint: str = ""
    is_not_found: bool = False


class _Outcomes(AccumulatorParam[list[Any]]):
    """Tasks add what came of each item; the driver sees it when the task ends."""

    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - Spark's signature
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        value1 += value2
        return value1


class Scatter(Generic[Item, Result]):
    """`work` is done for every item, in any order, by tasks that get some items each."""

    def __init__(self, spark: SparkSession, work: Callable[[Item], Result]) -> None:
        self._context = spark.sparkContext
        self._work = work
        self._group = f"headrace-{uuid.uuid4().hex}"
        self._seen = 0

    def run(
        self, items: Sequence[Item], description: str, on_result: Callable[[Result], None], on_look: Callable[[], None]
    ) -> list[Result]:
        """The results, in the order of the items. `on_result` hears of each when it is there, `on_look` of the time.

        OfflineFailed with the first trouble; what other tasks were doing is given up.
        """
        if not items:
            return []
        with _interrupts_noted() as is_interrupted, ThreadPoolExecutor(1, "headrace-scatter") as threads:
            self._outcomes = self._context.accumulator([], _Outcomes())
            collecting = threads.submit(self._collect, items, description)
            is_given_up = False
            while not wait([collecting], LOOK_EVERY_S).done:
                is_given_up |= self._look(on_result) or is_interrupted()
                if is_given_up:
                    self._cancel()  # again each time: it may come before the job has begun
                on_look()
            if is_interrupted():
                raise KeyboardInterrupt
        self._look(on_result)
        on_look()
        return self._settle(collecting)

    def _collect(self, items: Sequence[Item], description: str) -> list[Result | TaskFailure]:
        work, outcomes = self._work, self._outcomes

        def task(share: Iterable[Item]) -> Iterator[Result | TaskFailure]:
            for item in share:
                outcome = attempt(work, item)
                outcomes.add([outcome])
                yield outcome
                if isinstance(outcome, TaskFailure):
                    return  # what is next would meet it too

        self._context.setJobGroup(self._group, description, interruptOnCancel=True)
        slices = min(len(items), TASKS_MAX)
        return self._context.parallelize(items, slices).mapPartitions(task).collect()

    def _look(self, on_result: Callable[[Result], None]) -> bool:
        """Tell what has come since the last time. True if there is trouble in it."""
        arrived = self._outcomes.value[self._seen :]
        self._seen += len(arrived)
        for outcome in arrived:
            if not isinstance(outcome, TaskFailure):
                on_result(outcome)
        return any(isinstance(outcome, TaskFailure) for outcome in arrived)

    def _cancel(self) -> None:
        with suppress(Py4JError, PySparkException):  # it may have ended by itself
            self._context.cancelJobGroup(self._group)

    def _settle(self, collecting: Future[list[Result | TaskFailure]]) -> list[Result]:
        try:
            results = collecting.result()
        except (Py4JError, PySparkException) as error:
            _raise_failure(self._outcomes.value)
            raise OfflineFailed(f"Spark gave up: {_last_words(error)}") from error
        _raise_failure(results)
        return [result for result in results if not isinstance(result, TaskFailure)]


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether Ctrl-C was pressed.

    As an exception inside a call to the JVM it would break that connection, and be told with a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def attempt(work: Callable[[Item], Result], item: Item) -> Result | TaskFailure:
    """The result, or what was in the way if it is of a kind that a user can do something about."""
    try:
        return work(item)
    except OfflineFailed as failed:
        return TaskFailure(str(failed), failed.hint, failed.is_not_found)
    except Refusal as refusal:
        return TaskFailure(str(refusal), is_not_found=refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except (ClientError, CorruptBatch) as trouble:
        return TaskFailure(str(trouble))
    except OSError as trouble:
        return TaskFailure(" ".join(str(trouble).split()))


def _raise_failure(outcomes: Iterable[Any]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, TaskFailure):
            raise OfflineFailed(outcome.what, outcome.hint, is_not_found=outcome.is_not_found)


def _last_words(error: Exception) -> str:
    """What an error of Spark's says before its Java trace: the end of the task's own traceback, if there is one."""
    text = str(error).partition("\n\tat ")[0]
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), type(error).__name__)
