"""Spark in a process of its own, for tests whose Spark is not the one that all others share.

A JVM takes its jars and its master when it starts, and a process has one JVM. So functions are sent to another process,
which keeps its session for the next.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self, TypeVar

from pyspark.sql import SparkSession

from headrace_spark.session import start_session
from tests.spark.short_lived_jvm import SHORT_LIVED_JVM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S: Final = 240  # against hangs only
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,  # of executors that have JVMs of their own
}


class SparkFailed(Exception):
    """What Spark said; its own exceptions hold on to the JVM and cannot leave their process."""


class SparkProcess:
    """Use it in a `with` block: leaving ends the process and its JVM."""

    def __init__(self, *, master: str = "local[2]", conf: Mapping[str, str] | None = None) -> None:
        self._pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin, initargs=(master, {**SETTINGS, **(conf or {})})
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(_end)
        self._pool.shutdown()

    def run(self, work: Callable[Concatenate[SparkSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a module with the session there; what it returns must not be tied to the session."""
        return self._pool.submit(_call, work, args, kwargs).result(PATIENCE_S)


def _begin(master: str, conf: Mapping[str, str]) -> None:
    session = start_session("headrace tests", master=master, conf=conf)
    session.sparkContext.setLogLevel("ERROR")


def _end(session: SparkSession) -> None:
    session.stop()


def _call(work: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]) -> T:
    session = SparkSession.getActiveSession()
    assert session is not None
    try:
        return work(session, *args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the text of any of them is to travel
        raise SparkFailed(f"{type(error).__name__}: {error}") from None
