"""Read a pipeline's file.

Every key that the file may have is named in `KEYS`; `docs/pipelines.md` explains them.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace_spark.pipeline.file.cluster_section import GivenCluster, read_cluster
from headrace_spark.pipeline.file.keys import KEYS
from headrace_spark.pipeline.file.sink_sections import read_sink
from headrace_spark.pipeline.file.source_sections import read_expectation, read_source, read_static_table
from headrace_spark.pipeline.file.spec import (
    DEAD_LETTERS_QUERY,
    AvailableNow,
    DeadLetterSpec,
    EverySeconds,
    Pipeline,
    PythonQuery,
    RestartPolicy,
    RunSpec,
    SourceSpec,
    SqlQuery,
    StaticTable,
    TopicSink,
)
from headrace_spark.pipeline.file.toml_section import Section, read_toml
from headrace_spark.pipeline.file.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace_spark.pipeline.file.spec import ClusterSpec
    from headrace_spark.pipeline.file.toml_lines import KeyPath

TRIGGER_DEFAULT: AvailableNow | EverySeconds = EverySeconds(5)
RESTART_ATTEMPTS = 5  # half a minute with the pauses below: a node's restart is ridden out, a wrong setting is not
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PYTHON_FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


def load(
    path: Path,
    *,
    bootstrap_servers: str | None = None,
    command_config: str | None = None,
    properties: Mapping[str, str] = MappingProxyType({}),
    cluster: ClusterSpec | None = None,
) -> Pipeline:
    """Read and check a pipeline's file, without Spark and without a cluster.

        pipeline = load(Path("orders.toml"))
        Runner(pipeline, observer).run()

    `bootstrap_servers`, `command_config` (a file of a Kafka client's settings) and `properties` (some of them) are used
    instead of what the file says; with `cluster`, nothing of it counts. Raises PipelineError with the line, what is
    wrong there and what to do.
    """
    file, values = read_toml(path)
    top = Section(file, (), values, KEYS[""])
    name = _pipeline_name(top)
    sources = tuple(read_source(section) for section in top.tables("source", KEYS["source"]))
    if not sources:
        hint = 'for example [[source]] with name = "orders" and topic = "orders"'
        raise file.error((), "a pipeline needs a source", hint)
    tables = tuple(read_static_table(section) for section in top.tables("table", KEYS["table"]))
    sinks = tuple(read_sink(section) for section in top.tables("sink", KEYS["sink"]))
    if not sinks:
        raise file.error((), "a pipeline needs a sink", "for example [[sink]] with console = true")
    expectations = tuple(
        read_expectation(section, number, sources)
        for number, section in enumerate(top.tables("expect", KEYS["expect"]), start=1)
    )
    section = top.table("cluster", KEYS["cluster"])
    pipeline = Pipeline(
        name,
        cluster or read_cluster(section, GivenCluster(bootstrap_servers, command_config, properties)),
        sources,
        tables,
        expectations,
        _query(top.table("query", KEYS["query"])) if "query" in top else None,
        sinks,
        _run(top.table("run", KEYS["run"]), name),
        _dead_letters(top.table("dead_letters", KEYS["dead_letters"]), name),
        top.table("spark", KEYS["spark"]).settings("conf"),
        path,
        file,
    )
    _refuse_contradictions(pipeline)
    return pipeline


def _pipeline_name(top: Section) -> str:
    name = top.required_text("name", "orders-per-minute")
    if not _NAME.fullmatch(name) or len(name) > 200:
        hint = "it names a consumer group, a topic and a directory: letters, digits, '.', '_' and '-', at most 200"
        raise top.error("name", f"cannot be named {name!r}", hint)
    return name


# ---- expectations and query


def _query(section: Section) -> SqlQuery | PythonQuery:
    if "sql" in section and "python" in section:
        raise section.error("python", "has both sql and python", "keep the one that is meant")
    if "python" not in section:
        return SqlQuery(section.required_text("sql", "SELECT * FROM orders").rstrip().rstrip(";"), section.key_path)
    reference = section.required_text("python", "orders:enrich")
    found = _PYTHON_FUNCTION.fullmatch(reference)
    if found is None:
        raise section.error("python", f"python is {reference!r}", "write module:function, as in orders:enrich")
    return PythonQuery(found[1], found[2], section.key_path)


# ---- how it runs


def _run(section: Section, name: str) -> RunSpec:
    return RunSpec(
        section.parsed("trigger", _parse_trigger, TRIGGER_DEFAULT),
        section.text("master", "local[*]"),
        section.file.resolve(section.text("checkpoint", f"checkpoints/{name}")),
        section.text("group", f"pipeline.{name}"),
        _restart(section),
    )


def _parse_trigger(text: str) -> AvailableNow | EverySeconds:
    if text == "available-now":
        return AvailableNow()
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise ValueError(f"{error}; the other choice is 'available-now'") from error
    return EverySeconds(seconds)


def _restart(section: Section) -> RestartPolicy:
    if section.choice("restart", ("on-failure", "never"), "on-failure") == "never":
        for key in ("restart_attempts", "restart_backoff", "restart_backoff_max"):
            if key in section:
                raise section.error(key, f'has {key}, but restart = "never"', "keep the one that is meant")
        return RestartPolicy(0, BACKOFF_FIRST_S, BACKOFF_MAX_S)
    first_s = section.parsed("restart_backoff", parse_duration_s, BACKOFF_FIRST_S)
    max_s = section.parsed("restart_backoff_max", parse_duration_s, max(first_s, BACKOFF_MAX_S))
    if max_s < first_s:
        raise section.error("restart_backoff_max", "restart_backoff_max is shorter than restart_backoff")
    return RestartPolicy(section.count("restart_attempts", RESTART_ATTEMPTS), first_s, max_s)


def _dead_letters(section: Section, name: str) -> DeadLetterSpec:
    topic = section.text("topic", f"{name}.dead-letters")
    section.check_topic_name(topic)
    return DeadLetterSpec(topic)


# ---- what does not go together


def _refuse_contradictions(pipeline: Pipeline) -> None:
    named: dict[str, KeyPath] = {}
    tables: list[SourceSpec | StaticTable] = [*pipeline.sources, *pipeline.tables]
    for table in tables:
        if table.name.lower() in named:
            first = pipeline.file.key_lines.line_of((*named[table.name.lower()], "name"))
            raise pipeline.error(
                (*table.key_path, "name"), f"there are two tables named '{table.name}'", f"see line {first}"
            )
        named[table.name.lower()] = table.key_path
    if pipeline.query is None and len(named) > 1:
        names = " and ".join(table.name for table in tables)
        raise pipeline.error((), f"nothing says how to join {names}", 'add [query] with sql = "SELECT …"')
    _refuse_sink_names_in_use(pipeline)
    _refuse_loops(pipeline)


def _refuse_sink_names_in_use(pipeline: Pipeline) -> None:
    taken = {DEAD_LETTERS_QUERY}
    for sink in pipeline.sinks:
        if sink.name.lower() in taken:
            raise pipeline.error(
                sink.key_path, f"there are two sinks named '{sink.name}'", "give one a name of its own"
            )
        taken.add(sink.name.lower())


def _refuse_loops(pipeline: Pipeline) -> None:
    hint = "what it writes it would read again, without end"
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink) and _reader_of(sink.topic, pipeline) is not None:
            raise pipeline.error((*sink.key_path, "topic"), f"the topic '{sink.topic}' is read and written", hint)
    reader = _reader_of(pipeline.dead_letters.topic, pipeline)
    if reader is not None and reader.topic_pattern is None:
        raise pipeline.error(("dead_letters", "topic"), "a source reads the topic of the dead letters", hint)
    if reader is not None and pipeline.has_dead_letters(reader):
        problem = f"topic_pattern fits the topic of the dead letters, '{pipeline.dead_letters.topic}'"
        raise pipeline.error((*reader.key_path, "topic_pattern"), problem, hint)


def _reader_of(topic: str, pipeline: Pipeline) -> SourceSpec | None:
    for source in pipeline.sources:
        if topic in source.topics or (source.topic_pattern and re.fullmatch(source.topic_pattern, topic)):
            return source
    return None
