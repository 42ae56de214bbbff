"""The streaming queries of a pipeline: one for each sink, and one for dead letters."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException

from headrace_spark.pipeline.file.spec import DEAD_LETTERS_QUERY, AvailableNow, EverySeconds, TopicSink
from headrace_spark.pipeline.run.failures import PipelineFailure
from headrace_spark.pipeline.run.query_progress import ProgressReader
from headrace_spark.pipeline.sinks.batch_name import BatchName
from headrace_spark.pipeline.sinks.writers import dead_letter_writer, rows_for, writer_for
from headrace_spark.pipeline.spark_errors import quiet, said_by
from headrace_spark.pipeline.status.query_status import status_of
from headrace_spark.pipeline.tables.query import result_of
from headrace_spark.pipeline.tables.sources import read_sources
from headrace_spark.sink.staging_names import application_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace_spark.pipeline.file.spec import OutputMode, Pipeline
    from headrace_spark.pipeline.run.query_progress import BatchProgress
    from headrace_spark.pipeline.sinks.batch_name import BatchWriter
    from headrace_spark.pipeline.sinks.console import ShowRows
    from headrace_spark.pipeline.status.query_status import QueryStatus

STOP_POLL_S = 0.05  # how often to look whether a batch is over


class NoMoreBatches(Exception):
    """The pipeline is stopping. A batch that begins now is left to the next run."""


class _QueryPlan(NamedTuple):
    """A query that is not started yet."""

    name: str
    rows: DataFrame
    mode: OutputMode
    writer: BatchWriter


class StreamingQueries:
    """All queries of one attempt. They live and die together."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, show_rows: ShowRows, before: tuple[QueryStatus, ...] = ()
    ) -> None:
        """`before`: how they did in earlier attempts. PipelineFailure if the pipeline does not fit its topics."""
        self._spark = spark
        self._pipeline = pipeline
        self._before = before
        self._is_stopping = threading.Event()
        self._errors: dict[str, Exception] = {}  # as the writers raised them, before Spark wraps them
        self._batches: dict[str, int] = {}  # that are being written
        self._running: dict[str, StreamingQuery] = {}
        self._progress: dict[str, ProgressReader] = {}
        try:
            self._query_plans = _query_plans(spark, pipeline, show_rows)
        except Exception as error:
            raise PipelineFailure(None, error) from error

    @property
    def spark_names(self) -> list[str]:
        """What Spark's own displays call them."""
        return [spark_name(self._pipeline, plan.name) for plan in self._query_plans]

    @property
    def sink_ids(self) -> tuple[str, ...]:
        """The transactional ids with which those that were started write to topics."""
        topics = {sink.name: sink.topic for sink in self._pipeline.sinks if isinstance(sink, TopicSink)}
        topics[DEAD_LETTERS_QUERY] = self._pipeline.dead_letters.topic
        return tuple(
            application_id(topics[name], str(query.id)) for name, query in self._running.items() if name in topics
        )

    def start(self) -> None:
        """PipelineFailure if one cannot be started; then none is left running."""
        for plan in self._query_plans:
            try:
                with quiet():
                    query = self._stream(plan).start()
            except Exception as error:
                self.stop_now()
                raise PipelineFailure(plan.name, error) from error
            self._running[plan.name] = query
            self._progress[plan.name] = ProgressReader(query, self._status_before(plan.name))

    def _stream(self, plan: _QueryPlan) -> DataStreamWriter:
        def write(batch: DataFrame, batch_id: int) -> None:
            if self._is_stopping.is_set():
                raise NoMoreBatches
            query_id = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
            assert query_id is not None
            self._batches[plan.name] = batch_id
            try:
                plan.writer(batch, BatchName(query_id, batch_id))
            except Exception as error:
                self._errors[plan.name] = error
                raise
            del self._batches[plan.name]

        stream = (
            plan.rows.writeStream.queryName(spark_name(self._pipeline, plan.name))
            .outputMode(plan.mode)
            .option("checkpointLocation", self._pipeline.checkpoint_of(plan.name))
            .foreachBatch(write)
        )
        match self._pipeline.run.trigger:
            case AvailableNow():
                return stream.trigger(availableNow=True)
            case EverySeconds(seconds):
                return stream.trigger(processingTime=f"{round(seconds * 1000)} milliseconds")

    # ---- while they run

    @property
    def is_active(self) -> bool:
        """Whether any of them still runs."""
        return any(query.isActive for query in self._running.values())

    def failures(self) -> list[PipelineFailure]:
        """Of all queries that failed so far. One that was told to stop has not."""
        if self._is_stopping.is_set():
            return []
        return [failure for name in self._running if (failure := self._failure_of(name)) is not None]

    def _failure_of(self, name: str) -> PipelineFailure | None:
        query = self._running[name]
        error = None if query.isActive else query.exception()
        if error is None:
            return None
        return PipelineFailure(name, self._errors.get(name) or error, self._batches.get(name))

    def new_progress(self) -> list[BatchProgress]:
        """Batches that were finished since the last call."""
        return [progress for reader in self._progress.values() for progress in reader.take()]

    @property
    def statuses(self) -> tuple[QueryStatus, ...]:
        """How each of them is doing, in the order of the file."""
        return tuple(
            self._progress[plan.name].status if plan.name in self._progress else self._status_before(plan.name)
            for plan in self._query_plans
        )

    def _status_before(self, name: str) -> QueryStatus:
        return status_of(self._before, name).started_again()

    # ---- their end

    def stop_after_batches(self, forced: threading.Event) -> None:
        """Let each query finish the batch that it is at, unless `forced` is set meanwhile."""
        self._is_stopping.set()
        while not forced.is_set() and self.is_active:
            for query in self._running.values():
                # Between two batches nothing is under way. A batch that begins in this very moment is refused above.
                if query.isActive and not query.status["isTriggerActive"]:
                    query.stop()
            time.sleep(STOP_POLL_S)
        self.stop_now()

    def stop_now(self) -> None:
        """End them without waiting for the batches under way; those are repeated by the next run."""
        self._is_stopping.set()
        for query in self._running.values():
            query.stop()


def spark_name(pipeline: Pipeline, query_name: str) -> str:
    """What Spark's own displays call a query of a pipeline."""
    return f"{pipeline.name}/{query_name}"


def _query_plans(spark: SparkSession, pipeline: Pipeline, show_rows: ShowRows) -> list[_QueryPlan]:
    tables = read_sources(spark, pipeline)
    result = result_of(spark, pipeline, tables.by_name)
    plans = []
    for sink in pipeline.sinks:
        try:
            with quiet():
                rows = rows_for(sink, result)
        except AnalysisException as error:
            raise pipeline.error(sink.key_path, f"the result does not fit the sink: {said_by(error)}") from error
        plans.append(_QueryPlan(sink.name, rows, sink.mode, writer_for(sink, pipeline, show_rows)))
    if tables.dead_letters is not None:
        plans.append(_QueryPlan(DEAD_LETTERS_QUERY, tables.dead_letters, "append", dead_letter_writer(pipeline)))
    return plans
