"""What `headrace pipeline validate` finds out: all that can be known without running the pipeline.

The topics are looked for in the cluster. Spark analyses the tables, the query and the sinks, but reads no record.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from headrace.client.admin.admin import Admin
from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace_spark.pipeline.file.errors import PipelineError, choices_hint
from headrace_spark.pipeline.file.spec import ConsoleSink, TopicSink
from headrace_spark.pipeline.run.runner import started_session
from headrace_spark.pipeline.sinks.topic import RAW_VALUE, records_of, value_columns
from headrace_spark.pipeline.spark_errors import quiet, said_by
from headrace_spark.pipeline.tables.query import result_of
from headrace_spark.pipeline.tables.sources import read_sources
from headrace_spark.pipeline.tables.static_tables import read_static_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import OutputMode, Pipeline, SinkSpec


def problems_of(pipeline: Pipeline, spark: SparkSession | None = None) -> list[PipelineError]:
    """Empty if all is well. Without a session it starts one, and stops it again."""
    topic_problems = _topic_problems(pipeline)
    with session_for(pipeline, spark) as session:
        # What is wrong with a table would only be repeated, in other words, by the query.
        plan_problems = _table_problems(session, pipeline) or _result_problems(session, pipeline)
    return topic_problems + plan_problems


@contextmanager
def session_for(pipeline: Pipeline, spark: SparkSession | None) -> Iterator[SparkSession]:
    """The given one, or a small one for as long as it takes. Plans are made on this machine, whatever the master."""
    if spark is not None:
        yield spark
        return
    session = started_session(pipeline, f"{pipeline.name} (plan)", "local[1]")
    try:
        yield session
    finally:
        session.stop()


# ---- topics


def _topic_problems(pipeline: Pipeline) -> list[PipelineError]:
    try:
        with pipeline.cluster.connect() as client:
            there = {topic.name for topic in client.run(Admin(client.cluster).list_topics())}
    except (ClientError, Refusal, OSError) as error:
        return [pipeline.error(("cluster", "bootstrap_servers"), f"the cluster does not answer: {error}")]
    problems = []
    for source in pipeline.sources:
        for topic in source.topics:
            if topic not in there:
                problem = f"the topic '{topic}' does not exist"
                hint = f"create it: headrace topics create --name {topic}"
                problems.append(pipeline.error((*source.key_path, "topic"), problem, hint))
        if source.topic_pattern is not None and not any(re.fullmatch(source.topic_pattern, name) for name in there):
            problem = f"no topic has a name like '{source.topic_pattern}'"
            problems.append(
                pipeline.error((*source.key_path, "topic_pattern"), problem, "headrace topics list shows all")
            )
    return problems


# ---- the plan


def _table_problems(spark: SparkSession, pipeline: Pipeline) -> list[PipelineError]:
    one_by_one = [replace(pipeline, sources=(source,), tables=()) for source in pipeline.sources]
    return _complaints(
        [
            *(partial(read_sources, spark, alone) for alone in one_by_one),
            *(partial(read_static_table, spark, pipeline, table) for table in pipeline.tables),
        ]
    )


def _result_problems(spark: SparkSession, pipeline: Pipeline) -> list[PipelineError]:
    try:
        result = result_of(spark, pipeline, read_sources(spark, pipeline).by_name)
    except PipelineError as problem:
        return [problem]
    if not result.isStreaming:
        key_path = pipeline.query.key_path if pipeline.query else ()
        return [pipeline.error(key_path, "the result is not a stream", "the query must read one of the sources")]
    return _complaints([partial(_check_sink, spark, pipeline, sink, result) for sink in pipeline.sinks])


def _complaints(checks: list[Callable[[], object]]) -> list[PipelineError]:
    problems = []
    for check in checks:
        try:
            check()
        except PipelineError as problem:
            problems.append(problem)
    return problems


# ---- sinks


def _check_sink(spark: SparkSession, pipeline: Pipeline, sink: SinkSpec, result: DataFrame) -> None:
    if isinstance(sink, TopicSink):
        _check_record(pipeline, sink, result)
    elif not isinstance(sink, ConsoleSink):
        for column in sink.partition_by:
            _check_column(pipeline, sink, "partition_by", column, result.columns)
    _check_mode(spark, pipeline, sink, result)


def _check_record(pipeline: Pipeline, sink: TopicSink, result: DataFrame) -> None:
    for key, column in (("key", sink.key), ("headers", sink.headers)):
        if column is not None:
            _check_column(pipeline, sink, key, column, result.columns)
    columns = value_columns(result.columns, sink)
    has_one_text = sink.format == "text" and len(columns) == 1
    if sink.format in {"text", "raw"} and not has_one_text and RAW_VALUE not in columns:
        problem = f"the result has no column '{RAW_VALUE}', which {sink.format} writes"
        raise pipeline.error((*sink.key_path, "format"), problem, f"it has {', '.join(result.columns)}")
    try:
        with quiet():
            records_of(result, sink)
    except AnalysisException as error:
        raise pipeline.error(
            sink.key_path, f"the result cannot be written as {sink.format}: {said_by(error)}"
        ) from error


def _check_column(pipeline: Pipeline, sink: SinkSpec, key: str, column: str, columns: Collection[str]) -> None:
    if column not in columns:
        problem = f"the result has no column '{column}' for {key}"
        raise pipeline.error((*sink.key_path, key), problem, choices_hint(column, columns))


def _check_mode(spark: SparkSession, pipeline: Pipeline, sink: SinkSpec, result: DataFrame) -> None:
    """Spark's own check, which it makes when a query starts."""
    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    plan: Any = result._jdf.queryExecution().analyzed()
    try:
        with quiet():
            checker.checkForStreaming(plan, _output_mode(jvm, sink.mode))
    except AnalysisException as error:
        problem = f"mode {sink.mode} does not go with the query: {said_by(error, in_full=True)}"
        raise pipeline.error((*sink.key_path, "mode"), problem, _mode_hint(sink.mode, str(error))) from error


def _output_mode(jvm: Any, mode: OutputMode) -> Any:
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    return {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()


def _mode_hint(mode: OutputMode, said: str) -> str:
    if mode == "append" and "watermark" in said:
        return 'give the source a watermark, and group by a window of its column; or write with mode = "update"'
    if mode == "complete" and "no streaming aggregation" in said.lower():
        return 'mode = "append" writes each row once'
    return "the modes are append, update and complete"
