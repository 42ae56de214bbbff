"""Run a pipeline to its end: start its queries, watch them, start them again after a failure, tell how they are.

claim the name → start Spark → look for checkpoints → start the queries → watch → (failure: pause, again) → last word
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.run.checkpoints import check_checkpoints
from headrace_spark.pipeline.run.failure_file import FailureFile
from headrace_spark.pipeline.run.failures import PipelineFailure, SparkGone
from headrace_spark.pipeline.run.restarts import Restarts
from headrace_spark.pipeline.run.stopping import StopSwitch
from headrace_spark.pipeline.run.streaming_queries import StreamingQueries
from headrace_spark.pipeline.sinks.target_topics import make_topics
from headrace_spark.pipeline.spark_errors import java_words, quiet
from headrace_spark.pipeline.status.cleanup import clear_staging
from headrace_spark.pipeline.status.lease import RunLease
from headrace_spark.pipeline.status.query_status import is_any_failing, shortened
from headrace_spark.pipeline.status.run_status import RunState, now_utc
from headrace_spark.progress import report_progress
from headrace_spark.session import refuse_connect, start_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.status.query_status import QueryStatus
    from headrace_spark.pipeline.status.run_status import RunStatus

CLEAR_FOR_S = 5.0  # without a cluster that answers, a run must end all the same
LEFTOVERS_MAX = 100  # ids of earlier checkpoints that are remembered; each lost checkpoint adds one for each topic
WATCH_S = 0.25  # how often queries are looked at; a batch takes as long
JVM_GONE = (Py4JError, ConnectionRefusedError)  # what a call to a JVM that died raises
DEBUG_VARIABLE = "HEADRACE_DEBUG"
# Times without a zone, in JSON too, shall mean the same on every machine.
DEFAULT_CONF = {"spark.sql.session.timeZone": "UTC"}

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """Whoever shows what a run does."""

    def tell(self, run: RunStatus) -> None:
        """The run as it is now; called often."""

    def batch(self, progress: BatchProgress) -> None:
        """A batch is finished."""

    def rows(self, query: str, batch_id: int, rows: list[dict[str, Any]], more_count: int) -> None:
        """A console sink has these, and more that are not shown."""

    def restarting(self, failure: PipelineFailure, pause_s: float) -> None:
        """A query failed, and the pipeline starts again after the pause."""


class TakenOver(Exception):
    """Another run of the pipeline has begun, and this one gave way."""

    def __init__(self, other: RunStatus) -> None:
        super().__init__(f"another run of pipeline {other.name!r} has taken over: {other.where}")


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
        hint = "check master and [spark.conf]; Spark's own output above may say more"
        raise pipeline.error(("run",), f"Spark does not start on {master!r}: {java_words(error)}", hint) from error


class Runner:
    """Runs a pipeline, once. `switch` stops it from any thread.

        state = Runner(pipeline, observer).run().state

    With `take_over` a run that is alive has to give way. With `from_start` the pipeline begins anew, though it has run
    before and its checkpoint is gone.
    """

    def __init__(
        self, pipeline: Pipeline, observer: Observer, *, take_over: bool = False, from_start: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._observer = observer
        self._take_over = take_over
        self._from_start = from_start
        self.switch = StopSwitch()

    def run(self, session: SparkSession | None = None) -> RunStatus:
        """Until it has finished or was stopped; the status in which it ended.

        Without a session it starts one, and listens to signals. Raises AlreadyRunning, TakenOver, PipelineFailure, and
        JavaUnsuitable if there is none.
        """
        run = self._pipeline.run
        if session is None:
            refuse_connect(run.master, os.environ)  # before anybody hears of a run
        lease = RunLease(
            self._pipeline.cluster.bootstrap_servers,
            self._pipeline.name,
            run.master,
            take_over=self._take_over,
            on_stop=self.switch.ask,
            on_taken_over=self.switch.take_over,
            security=self._pipeline.cluster.security,
        )
        try:
            _LeasedRun(self._pipeline, self._observer, lease, self.switch, from_start=self._from_start).run(session)
        finally:
            lease.close()
        return lease.run


class _LeasedRun:
    """The run, from the moment that the pipeline's name is its own."""

    def __init__(
        self, pipeline: Pipeline, observer: Observer, lease: RunLease, switch: StopSwitch, *, from_start: bool
    ) -> None:
        self._pipeline = pipeline
        self._observer = observer
        self._lease = lease
        self._switch = switch
        self._from_start = from_start
        self._restarts = Restarts(pipeline.run.restart)
        self._failure_file = FailureFile(pipeline.name)

    def run(self, session: SparkSession | None) -> None:
        """To its end, which the lease is told."""
        try:
            self._observer.tell(self._lease.run)
            make_topics(self._pipeline)
            state = self._run_in(session) if session is not None else self._run_in_own_session()
            if not self._switch.forced.is_set():  # all batches are done; else one may be on its way still
                self._clear_staging(self._lease.run.sink_ids)
            self._tell(state=state)
        except BaseException as error:
            self._tell(state=RunState.FAILED, **_told(error))
            raise

    def _run_in_own_session(self) -> RunState:
        with self._switch.pressed_by_signals() as listen_again:
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

    def _run_in(self, session: SparkSession) -> RunState:
        self._check_checkpoints(session)
        while not self._switch.pressed.is_set():
            failures = self._attempt(session)
            if not failures:
                break
            self._pause_after(failures)
        if self._switch.taken_over_by is not None:
            raise TakenOver(self._switch.taken_over_by)
        return RunState.STOPPED if self._switch.pressed.is_set() else RunState.FINISHED

    def _check_checkpoints(self, session: SparkSession) -> None:
        try:
            check_checkpoints(session, self._pipeline, self._lease.run, from_start=self._from_start)
        except PipelineError as error:
            raise PipelineFailure(None, error) from error
        self._tell(checkpoint=self._pipeline.run.checkpoint)

    def _attempt(self, session: SparkSession) -> list[PipelineFailure]:
        """Until all queries have ended, or some have failed: those are returned."""
        try:
            return self._watched(session)
        except PipelineFailure as failure:
            return [failure]

    def _watched(self, session: SparkSession) -> list[PipelineFailure]:
        queries = StreamingQueries(session, self._pipeline, self._observer.rows, self._lease.run.queries)
        self._tell(queries=queries.statuses)
        reporter = report_progress(
            session,
            self._pipeline.cluster.bootstrap_servers,
            group=self._pipeline.run.group,
            queries=queries.spark_names,
            options=self._pipeline.cluster.options,
        )
        with reporter:
            queries.start()
            self._note_sinks(queries.sink_ids)
            try:
                return self._watch(queries)
            except JVM_GONE as error:
                raise PipelineFailure(None, SparkGone()) from error
            finally:
                with suppress(*JVM_GONE):
                    queries.stop_now()

    def _watch(self, queries: StreamingQueries) -> list[PipelineFailure]:
        self._tell_progress(queries)
        while queries.is_active and not queries.failures():
            if self._switch.pressed.wait(WATCH_S):
                self._tell(state=RunState.STOPPING)
                queries.stop_after_batches(self._switch.forced)
            self._tell_progress(queries)
        self._tell_progress(queries)
        failures = queries.failures()
        if not failures and not self._switch.pressed.is_set():
            # A query that ends by itself has got through, also where there was nothing to read any more.
            self._tell(queries=tuple(replace(query, is_failing=False) for query in queries.statuses))
        return failures

    def _note_sinks(self, now: tuple[str, ...]) -> None:
        """What an earlier checkpoint left in the cluster is of no use any more, unless its run is just ending."""
        before = [sink_id for sink_id in self._lease.run.sink_ids if sink_id not in now]
        self._tell(sink_ids=(*before[-LEFTOVERS_MAX:], *now), group=self._pipeline.run.group)
        if before and not self._lease.has_taken_over and self._clear_staging(before):
            self._tell(sink_ids=now)

    def _clear_staging(self, sink_ids: Iterable[str]) -> bool:
        """Whether it was done. If not, the run goes on: empty topics harm nobody, and the next run tries again."""
        try:
            cluster = self._pipeline.cluster
            settings = ClusterSettings(
                request_timeout_s=CLEAR_FOR_S,
                retry_for_s=CLEAR_FOR_S,
                reach_for_s=CLEAR_FOR_S,
                security=cluster.security,
            )
            with BlockingCluster(cluster.bootstrap_servers, settings) as client:
                client.run(clear_staging(client.cluster, sink_ids))
        except (ClientError, Refusal) as trouble:
            _log.warning("staging topics could not be deleted, the next run tries again: %s", trouble)
            return False
        return True

    def _pause_after(self, failures: list[PipelineFailure]) -> None:
        """Wait until it is time for another try, or until the run is to stop. Raises a failure that was the last."""
        for failure in failures:
            failure.details = self._failure_file.keep(failure)
        permanent = next((failure for failure in failures if failure.is_permanent), None)
        pause_s = None if permanent else self._restarts.pause_s([failure.query for failure in failures])
        is_pressed = self._switch.pressed.is_set()
        is_last = pause_s is None or is_pressed
        self._tell(queries=_marked(self._lease.run.queries, failures, is_last=is_last))
        if pause_s is None or is_pressed:
            raise permanent or failures[-1]
        self._tell(state=RunState.DEGRADED, restarts=self._restarts.total, **_told(failures[-1]))
        for failure in failures:
            self._observer.restarting(failure, pause_s)
        self._switch.pressed.wait(pause_s)

    # ---- telling

    def _tell_progress(self, queries: StreamingQueries) -> None:
        for progress in queries.new_progress():
            self._observer.batch(progress)
        statuses = queries.statuses
        for query in statuses:
            if not query.is_failing:
                self._restarts.got_through(query.sink)
        if self._switch.pressed.is_set():
            self._tell(queries=statuses)
        else:
            self._tell(queries=statuses, state=RunState.DEGRADED if is_any_failing(statuses) else RunState.RUNNING)

    def _tell(self, **changes: Any) -> None:
        self._lease.update(**changes)
        self._observer.tell(self._lease.run)


def _told(error: BaseException) -> dict[str, Any]:
    """The run's last error, with its time and its place."""
    query = error.query if isinstance(error, PipelineFailure) else None
    return {"error": shortened(str(error) or type(error).__name__), "error_at": now_utc(), "error_in": query}


def _marked(
    queries: tuple[QueryStatus, ...], failures: list[PipelineFailure], *, is_last: bool
) -> tuple[QueryStatus, ...]:
    """As they are after these failures; unless it is the last, the pipeline starts again because of them."""
    now, by_name = now_utc(), {failure.query: failure for failure in failures}
    return tuple(
        replace(query.failed(str(failure), now, failure.batch_id), restarts=query.restarts + (not is_last))
        if (failure := by_name.get(query.sink))
        else query.started_again()
        for query in queries
    )
