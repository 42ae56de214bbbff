"""Read what a pipeline's file says of its output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast, get_args

from headrace_spark.pipeline.file.spec import (
    ConsoleSink,
    DeltaSink,
    OutputMode,
    ParquetSink,
    SinkFormat,
    SinkSpec,
    TopicSink,
)
from headrace_spark.pipeline.file.units import parse_size_bytes

if TYPE_CHECKING:
    from headrace_spark.pipeline.file.toml_section import Section

TARGET_FILE_BYTES = 128 * 1024**2  # what query engines read well; smaller files cost an open and a plan each

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KINDS = ("topic", "parquet", "delta", "console")
_ONLY_FOR = {
    "key": ("topic",),
    "format": ("topic",),
    "headers": ("topic",),
    "partition_by": ("parquet", "delta"),
    "target_file_size": ("parquet", "delta"),
}


def read_sink(section: Section) -> SinkSpec:
    """A `[[sink]]`. Raises PipelineError."""
    kinds = [kind for kind in _KINDS if kind in section]
    if len(kinds) != 1:
        problem = f"has both {' and '.join(kinds)}" if kinds else "does not say where to write"
        raise section.error(kinds[-1] if kinds else None, problem, "give one of topic, parquet, delta and console")
    (kind,) = kinds
    for key, owners in _ONLY_FOR.items():
        if key in section and kind not in owners:
            raise section.error(key, f"{key} does not go with {kind}", f"it is for {' and '.join(owners)}")
    mode = cast(OutputMode, section.choice("mode", get_args(OutputMode), "append"))
    if kind == "console":
        if not section.flag("console", default=False):
            raise section.error("console", "console is false", "leave the sink out if nothing is to be shown")
        return ConsoleSink(_sink_name(section, "console"), mode, section.key_path)
    if kind == "topic":
        return _topic_sink(section, mode)
    return _file_sink(section, kind, mode)


def _topic_sink(section: Section, mode: OutputMode) -> TopicSink:
    topic = section.required_text("topic", "orders-per-minute")
    section.check_topic_name(topic)
    return TopicSink(
        _sink_name(section, f"topic-{topic}"),
        topic,
        section.optional_text("key"),
        cast(SinkFormat, section.choice("format", get_args(SinkFormat), "json")),
        section.optional_text("headers"),
        mode,
        section.key_path,
    )


def _file_sink(section: Section, kind: str, mode: OutputMode) -> ParquetSink | DeltaSink:
    if mode == "update" or (mode == "complete" and kind == "parquet"):
        hint = "files are only added to: use append, with a watermark if the query aggregates"
        raise section.error("mode", f"mode {mode} does not go with {kind}", hint)
    written = section.required_text(kind, "out/")
    target_bytes = section.parsed("target_file_size", parse_size_bytes, TARGET_FILE_BYTES)
    sink = ParquetSink if kind == "parquet" else DeltaSink
    return sink(
        _sink_name(section, f"{kind}-{written}"),
        section.file.resolve(written),
        section.texts("partition_by"),
        target_bytes,
        mode,
        section.key_path,
    )


def _sink_name(section: Section, otherwise: str) -> str:
    """By its target and not its number, so that sinks may change places without taking over each other's checkpoint."""
    name = section.optional_text("name")
    if name is None:
        return re.sub(r"[^A-Za-z0-9._-]+", "-", otherwise).strip("-.")
    if not _NAME.fullmatch(name):
        hint = "it names a directory of the checkpoint: letters, digits, '.', '_' and '-'"
        raise section.error("name", f"cannot be named {name!r}", hint)
    return name
