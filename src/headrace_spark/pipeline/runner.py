"""Run a pipeline to its end: start its queries, watch them, start them again after a failure, tell how they are.

claim the name → start Spark → start the queries → watch → (failure: pause, start them again) → last word
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace_spark.pipeline.errors import PipelineError
from headrace_spark.pipeline.failures import PipelineFailure, SparkGone
from headrace_spark.pipeline.queries import Queries
from headrace_spark.pipeline.restart import Restarts
from headrace_spark.pipeline.run_record import RunRecord
from headrace_spark.pipeline.spark_errors import java_words, quiet
from headrace_spark.pipeline.state import State
from headrace_spark.pipeline.stopping import StopSwitch
from headrace_spark.pipeline.target_topics import make_topics
from headrace_spark.progress import report_progress
from headrace_spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.parts import Pipeline
    from headrace_spark.pipeline.query_progress import Progress
    from headrace_spark.pipeline.state import RunState

WATCH_S = 0.25  # how often queries are looked at; a batch takes as long
JVM_GONE = (Py4JError, ConnectionRefusedError)  # what a call to a JVM that died raises
DEBUG_VARIABLE = "HEADRACE_DEBUG"
# Times without a zone, in JSON too, shall mean the same on every machine.
DEFAULT_CONF = {"spark.sql.session.timeZone": "UTC"}


class Observer(Protocol):
    """Whoever shows what a run does."""

    def tell(self, run: RunState) -> None:
        """The run as it is now; called often."""

    def batch(self, progress: Progress) -> None:
        """A batch is finished."""

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None:
        """A console sink has these, and more that are not shown."""

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None: ...


class TakenOver(Exception):
    """Another run of the pipeline has begun, and this one gave way."""

    def __init__(self, other: RunState) -> None:
        super().__init__(f"another run of pipeline {other.name!r} has taken over: {other.place}")


@contextmanager
def _hushed(session: SparkSession) -> Iterator[None]:
    """Failures are told here, in a sentence. Spark and the bridge to it would show each several times, with stacks."""
    session.sparkContext.setLogLevel("FATAL")
    bridge = logging.getLogger("py4j")
    before = bridge.level
    bridge.setLevel(logging.CRITICAL)
    try:
        with quiet():
            yield
    finally:
        bridge.setLevel(before)


def started_session(pipeline: Pipeline, app_name: str, master: str) -> SparkSession:
    """Raises PipelineError if Spark does not take the master or the settings that it is given."""
    try:
        return start_session(app_name, master=master, conf={**DEFAULT_CONF, **pipeline.spark_conf})
    except (Py4JError, PySparkException) as error:
        hint = "look at master and at [spark.conf]; its own words may stand above"
        raise pipeline.error(("run",), f"Spark does not start on {master!r}: {java_words(error)}", hint) from error


class Runner:
    def __init__(self, pipeline: Pipeline, observer: Observer, *, take_over: bool = False) -> None:
        self._pipeline = pipeline
        self._observer = observer
        self._take_over = take_over
        self._restarts = Restarts(pipeline.run.restart)
        self._got_through = False  # a batch was finished since the last failure
        self._record: RunRecord
        self.switch = StopSwitch()

    def run(self, session: SparkSession | None = None) -> RunState:
        """Until it has finished or was stopped; the state in which it ended.

        Without a session it starts one, and listens to signals. Raises AlreadyRunning, TakenOver, PipelineFailure.
        """
        run = self._pipeline.run
        self._record = RunRecord(
            self._pipeline.cluster.bootstrap_servers,
            self._pipeline.name,
            run.master,
            take_over=self._take_over,
            on_stop=self.switch.ask,
            on_taken_over=self.switch.take_over,
        )
        try:
            self._observer.tell(self._record.run)
            make_topics(self._pipeline)
            state = self._run_in(session) if session is not None else self._run_in_own_session()
            self._tell(state=state, error=None)
        except BaseException as error:
            self._tell(state=State.FAILED, error=str(error) or type(error).__name__)
            raise
        finally:
            self._record.close()
        return self._record.run

    def _run_in_own_session(self) -> State:
        with self.switch.pressed_by_signals() as listen_again:
            try:
                session = started_session(self._pipeline, self._pipeline.name, self._pipeline.run.master)
            except PipelineError as error:
                raise PipelineFailure(None, error) from error
            listen_again()
            try:
                with nullcontext() if os.environ.get(DEBUG_VARIABLE) else _hushed(session):
                    return self._run_in(session)
            finally:
                with suppress(*JVM_GONE):
                    session.stop()

    def _run_in(self, session: SparkSession) -> State:
        while not self.switch.pressed.is_set():
            try:
                self._attempt(session)
                break
            except PipelineFailure as failure:
                self._pause_after(failure)
        if self.switch.taken_over_by is not None:
            raise TakenOver(self.switch.taken_over_by)
        return State.STOPPED if self.switch.pressed.is_set() else State.FINISHED

    def _attempt(self, session: SparkSession) -> None:
        queries = Queries(session, self._pipeline, self._observer.rows)
        reporter = report_progress(
            session,
            self._pipeline.cluster.bootstrap_servers,
            group=self._pipeline.run.group,
            queries=queries.spark_names,
        )
        with reporter:
            queries.start()
            try:
                self._watch(queries)
            except JVM_GONE as error:
                raise PipelineFailure(None, SparkGone()) from error
            finally:
                with suppress(*JVM_GONE):
                    queries.stop_now()

    def _watch(self, queries: Queries) -> None:
        self._tell(state=State.RUNNING, error=None)
        while queries.is_active and queries.failure() is None:
            if self.switch.pressed.wait(WATCH_S):
                self._tell(state=State.STOPPING)
                queries.stop_after_batches(self.switch.hurry)
            self._tell_progress(queries)
        self._tell_progress(queries)
        failure = queries.failure()
        if failure is not None:
            raise failure

    def _pause_after(self, failure: PipelineFailure) -> None:
        """Until it is time for another try, or somebody wants it to end. Raises the failure if it was the last."""
        pause_s = None if failure.is_hopeless else self._restarts.pause_s(got_through=self._got_through)
        self._got_through = False
        if pause_s is None or self.switch.pressed.is_set():
            raise failure
        self._observer.restarting(failure, pause_s)
        self._tell(state=State.STARTING, error=str(failure), restarts=self._restarts.total)
        self.switch.pressed.wait(pause_s)

    # ---- telling

    def _tell_progress(self, queries: Queries) -> None:
        for progress in queries.new_progress():
            self._got_through = True
            self._observer.batch(progress)
        self._tell(queries=queries.states)

    def _tell(self, **changes: Any) -> None:
        self._record.update(**changes)
        self._observer.tell(self._record.run)
