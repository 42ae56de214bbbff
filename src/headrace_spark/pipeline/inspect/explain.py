"""A pipeline in words: what is read, how it is checked, what is computed, where it goes, and how it would go on."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from headrace_spark.pipeline.decode.decoders import decoder_of
from headrace_spark.pipeline.file.spec import (
    DEAD_LETTERS_QUERY,
    AvailableNow,
    ConsoleSink,
    DeltaSink,
    EverySeconds,
    ParquetSink,
    PythonQuery,
    SqlQuery,
    TopicSink,
)
from headrace_spark.pipeline.inspect.validate import session_for
from headrace_spark.pipeline.tables.query import result_of
from headrace_spark.pipeline.tables.sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline, SinkSpec, SourceSpec, StaticTable

_STEPS_SHOWN = {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "EventTimeWatermark",
    "Expand",
    "Filter",
    "Generate",
    "Join",
    "Sort",
    "Union",
    "Window",
}
"""Of a plan; renaming and choosing columns is left out."""
_MARKS = re.compile(r"^~|#\d+L?(?:-T\d+ms)?")  # of Spark's: streaming, the column's number, its watermark
_LINE_CHARACTERS_MAX = 110  # plans have long lines, terminals do not


def explain(pipeline: Pipeline, spark: SparkSession | None = None) -> str:
    """Without a session it starts one, for the plan, and stops it again. Raises PipelineError."""
    with session_for(pipeline, spark) as session:
        tables = read_sources(session, pipeline)
        result = result_of(session, pipeline, tables.by_name)
        lines = [
            f"pipeline {pipeline.name} ({pipeline.path.name}) on {pipeline.cluster.bootstrap_servers}",
            "",
            "reads",
            *_indented(line for source in pipeline.sources for line in _source_lines(pipeline, source)),
            *_indented(_table_line(table) for table in pipeline.tables),
            "",
            "computes",
            *_indented(_query_lines(pipeline)),
            *_indented(_plan_lines(result, set(tables.by_name))),
            *_indented([f"gives {_columns_text(result)}"]),
            "",
            "writes",
            *_indented(_sink_line(sink) for sink in pipeline.sinks),
            *_indented([_dead_letter_line(pipeline, has_any=tables.dead_letters is not None)]),
            "",
            "runs",
            *_indented(_run_lines(pipeline, has_dead_letters=tables.dead_letters is not None)),
        ]
    return "\n".join(lines)


def _indented(lines: Any) -> Iterator[str]:
    return (f"  {line}" for line in lines)


# ---- input


def _source_lines(pipeline: Pipeline, source: SourceSpec) -> Iterator[str]:
    what = f"topics like {source.topic_pattern}" if source.topic_pattern else f"topic {', '.join(source.topics)}"
    yield f"{source.name}: {what}, from {_starting_text(source)}, {_isolation_text(source)}"
    columns = ", ".join(f"{field.name} {_type_text(field.dataType)}" for field in decoder_of(pipeline, source).columns)
    prefix = " after a registry's prefix" if source.has_registry_prefix else ""
    yield f"  decoded as {source.format}{prefix}: {columns}"
    if source.metadata:
        yield f"  metadata: {', '.join(source.metadata)}"
    yield f"  what does not decode: {source.undecodable}; null values: {source.tombstones}"
    for expectation in pipeline.expectations_of(source):
        yield f"  expected: {expectation.sql} ({expectation.name}), otherwise {expectation.otherwise}"
    if source.watermark is not None:
        yield f"  watermark: records may be up to {source.watermark.delay} late by {source.watermark.column}"
    if source.dedupe:
        yield f"  doubles by {', '.join(source.dedupe)} are dropped within the watermark"


def _starting_text(source: SourceSpec) -> str:
    return source.starting.isoformat() if isinstance(source.starting, datetime) else f"the {source.starting} offset"


def _isolation_text(source: SourceSpec) -> str:
    return "committed records only" if source.is_committed_only else "uncommitted records too"


def _type_text(kind: Any) -> str:
    return str(kind.simpleString()).upper()


def _table_line(table: StaticTable) -> str:
    return f"{table.name}: {table.format} {table.path}, once, when the pipeline starts"


# ---- query


def _query_lines(pipeline: Pipeline) -> list[str]:
    match pipeline.query:
        case None:
            return [f"nothing: {pipeline.sources[0].name} goes through as it is"]
        case SqlQuery(sql):
            return [line.rstrip() for line in sql.strip("\n").splitlines()]
        case PythonQuery(module, function):
            return [f"{module}:{function}(spark, tables)"]
        case _:
            assert_never(pipeline.query)


def _plan_lines(result: DataFrame, tables: set[str]) -> Iterator[str]:
    yield "plan, the last step first:"
    plan: Any = result._jdf.queryExecution().analyzed()
    yield from _indented(_steps(plan, tables, 0))


def _steps(node: Any, tables: set[str], depth: int) -> Iterator[str]:
    name = node.nodeName()
    if name == "SubqueryAlias" and node.alias() in tables:
        yield f"{'  ' * depth}{node.alias()}"
        return
    if name in _STEPS_SHOWN:
        text = _MARKS.sub("", " ".join(node.simpleString(_LINE_CHARACTERS_MAX).split()))
        yield "  " * depth + (text if len(text) <= _LINE_CHARACTERS_MAX else f"{text[:_LINE_CHARACTERS_MAX]}…")
        depth += 1
    children = node.children()
    for at in range(children.size()):
        yield from _steps(children.apply(at), tables, depth)


def _columns_text(result: DataFrame) -> str:
    return ", ".join(f"{field.name} {_type_text(field.dataType)}" for field in result.schema)


# ---- output


def _sink_line(sink: SinkSpec) -> str:
    match sink:
        case TopicSink():
            key = f"key {sink.key}" if sink.key is not None else "no key"
            headers = f", headers {sink.headers}" if sink.headers is not None else ""
            return f"{sink.name}: topic {sink.topic}, {key}, value {sink.format}{headers}, mode {sink.mode}"
        case ParquetSink() | DeltaSink():
            kind = "parquet" if isinstance(sink, ParquetSink) else "delta"
            by = f", partitioned by {', '.join(sink.partition_by)}" if sink.partition_by else ""
            size = f"files of about {sink.target_file_bytes // 1024**2} MiB"
            return f"{sink.name}: {kind} {sink.path}{by}, {size}, mode {sink.mode}"
        case ConsoleSink():
            return f"{sink.name}: the console, mode {sink.mode}"
        case _:
            assert_never(sink)


def _dead_letter_line(pipeline: Pipeline, *, has_any: bool) -> str:
    if not has_any:
        return f"{DEAD_LETTERS_QUERY}: none, for nothing can be rejected"
    return f"{DEAD_LETTERS_QUERY}: topic {pipeline.dead_letters.topic}, with what happened in the headers"


# ---- how it runs, and goes on


def _run_lines(pipeline: Pipeline, *, has_dead_letters: bool) -> Iterator[str]:
    run = pipeline.run
    match run.trigger:
        case AvailableNow():
            when = "once, up to what is there when it starts"
        case EverySeconds(seconds):
            when = f"a batch every {seconds:g} s"
        case _:
            assert_never(run.trigger)
    yield f"{when}, on {run.master}; lag is seen as consumer group {run.group}"
    restart = run.restart
    if restart.attempts:
        pauses = f"with pauses from {restart.backoff_first_s:g} s to {restart.backoff_max_s:g} s"
        yield f"after a failure: starts again, up to {restart.attempts} times in a row, {pauses}"
    else:
        yield "after a failure: ends"
    yield f"checkpoint {run.checkpoint}; at the next start"
    names = [sink.name for sink in pipeline.sinks] + ([DEAD_LETTERS_QUERY] if has_dead_letters else [])
    for name in names:
        yield f"  {name} {_restart_text(pipeline.checkpoint_of(name))}"


def _restart_text(checkpoint: str) -> str:
    if "://" in checkpoint:
        return "goes on where its checkpoint says, if there is one"
    planned = _newest(Path(checkpoint) / "offsets")
    if planned is None:
        return "begins: it has no checkpoint yet"
    finished = _newest(Path(checkpoint) / "commits")
    is_open = finished is None or finished.name != planned.name
    what = f"repeats batch {planned.name}, up to" if is_open else f"goes on after batch {planned.name}, from"
    return f"{what} {_offsets_text(planned)}; `starting` has no effect any more"


def _newest(directory: Path) -> Path | None:
    """Spark numbers its files by batch."""
    numbered = [file for file in directory.glob("*") if file.name.isdigit()]
    return max(numbered, key=lambda file: int(file.name), default=None)


def _offsets_text(planned: Path) -> str:
    """Line by line: the version, Spark's own notes, and then the offsets of each source."""
    ends: dict[str, int] = {}
    for line in planned.read_text().splitlines()[2:]:
        try:
            by_topic = json.loads(line)
            found = {f"{topic}-{part}": end for topic, parts in by_topic.items() for part, end in parts.items()}
        except (ValueError, AttributeError):
            continue  # a source of some other kind
        ends.update(found)
    return ", ".join(f"{name}@{end}" for name, end in sorted(ends.items())) or "unknown offsets"
