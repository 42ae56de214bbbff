"""The writers that Spark calls: `write` in the tasks, `commit` and `abort` in a Python process beside the driver.

Spark makes a new writer in a new process for each of these calls, so a writer knows its options and nothing else. Even
the query's id is known to the tasks alone; they bring it along with their output. Each micro-batch has at least one
task, since Spark gives an empty one a task without rows.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from headrace_spark.blocking import BlockingCluster
from headrace_spark.sink.commit_messages import TaskOutput
from headrace_spark.sink.options import SinkOptions
from headrace_spark.sink.publishing import Publication, Publisher
from headrace_spark.sink.rows import check_schema
from headrace_spark.sink.staging_names import ID_PREFIX
from headrace_spark.sink.tasks import leave_for_commit, task_index, write_directly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

QUERY_ID_PROPERTY = "sql.streaming.queryId"

_log = logging.getLogger(__name__)


class StreamWriter(DataSourceStreamArrowWriter):
    """Each micro-batch becomes visible at once and exactly once to readers of committed records.

    Output modes: `append` and `complete`, which appends the whole result each time, as the Kafka connector does. Spark
    refuses `update` for sinks in Python; write updates with `foreachBatch` and the options `txnAppId` and `txnVersion`.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutput:
        """In a task: leave the rows for the commit."""
        return leave_for_commit(iterator, self._options, _query_transactional_id(), task_index())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Beside the driver: publish what the tasks left.

        Raises RuntimeError if a task left nothing, StaleBatch, ProducerFenced.
        """
        outputs = _outputs(messages)
        if not outputs:
            raise RuntimeError(
                f"batch {batchId} has no output of any task, so it is not known which query it belongs to"
            )
        _publish(self._options, Publication(outputs[0].transactional_id, batchId, outputs, is_strict=True))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: a commit that failed has ended its transaction itself, and one that succeeded stays.

        A transaction left by a commit whose process was killed is ended by the next driver, or by its timeout. To end
        it here would mean to take the transactional id away from a driver that has replaced this one.
        """
        _log.warning("batch %d was not committed; %d task outputs are left to their retention", batchId, len(messages))


class OnceWriter(DataSourceArrowWriter):
    """A batch write with `txnAppId` and `txnVersion`: exactly once, however often a version is written again.

    A version that is not higher than the last one of its application and topic is skipped, as in Delta. With
    `txnStrict` that holds for the last one alone, and an older one is an error.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutput:
        """In a task: leave the rows for the commit."""
        return leave_for_commit(iterator, self._options, self._options.application_id, task_index())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Beside the driver: publish what the tasks left, unless this version was published before."""
        assert self._options.application is not None
        _, version = self._options.application
        outputs = _outputs(messages)
        _publish(
            self._options,
            Publication(self._options.application_id, version, outputs, is_strict=self._options.is_strict),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what the tasks left is not visible."""
        _log.warning("the write was not committed; %d task outputs are left to their retention", len(messages))


class DirectWriter(DataSourceArrowWriter):
    """A plain batch write: at least once.

    Tasks write straight to the targets. Within an attempt no record is repeated, but Spark may run a task again, after
    a failure or by speculation, and then its records are there twice. They are visible as soon as they are written.
    Set `txnAppId` and `txnVersion` for a write that happens at once and exactly once.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write the rows to their targets."""
        return write_directly(iterator, self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing can be undone: what was written is visible."""
        written = sum(message is not None for message in messages)
        _log.warning("the write failed; the records of %d of its %d tasks stay written", written, len(messages))


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceArrowWriter:
    """For `df.write`. Raises ValueError before anything is written."""
    parsed = _checked(schema, options)
    if overwrite:
        raise ValueError("a topic cannot be overwritten; write with mode('append')")
    return DirectWriter(parsed) if parsed.application is None else OnceWriter(parsed)


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG001
    """For `df.writeStream`. `overwrite` stands for output mode complete; a topic keeps earlier results too."""
    parsed = _checked(schema, options)
    if parsed.application is not None:
        raise ValueError("options 'txnAppId' and 'txnVersion' are for batch writes; a stream has its checkpoint")
    return StreamWriter(parsed)


def _checked(schema: StructType, options: Mapping[str, str]) -> SinkOptions:
    parsed = SinkOptions.parse(options)
    check_schema(schema, parsed.topic)
    return parsed


def _query_transactional_id() -> str:
    """The same for every run from one checkpoint."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
    if not query_id:
        raise RuntimeError(f"Spark does not say which query this task belongs to (local property {QUERY_ID_PROPERTY})")
    return ID_PREFIX + query_id


def _outputs(messages: Sequence[WriterCommitMessage | None]) -> tuple[TaskOutput, ...]:
    outputs = tuple(message for message in messages if isinstance(message, TaskOutput))
    if len(outputs) != len(messages):
        raise RuntimeError(
            f"{len(messages) - len(outputs)} of {len(messages)} tasks left no output; nothing is written"
        )
    return outputs


def _publish(options: SinkOptions, publication: Publication) -> bool:
    with BlockingCluster(options.bootstrap_servers, options.settings) as blocking:
        publisher = Publisher(blocking.cluster, publication, options.transaction_timeout_ms)
        return blocking.run(publisher.publish())
