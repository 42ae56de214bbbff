"""Read what a pipeline's file says of its input: sources, static tables, expectations."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast, get_args

from headrace_spark.pipeline.file.cluster_section import refuse_secret_options
from headrace_spark.pipeline.file.errors import choices_hint
from headrace_spark.pipeline.file.spec import (
    METADATA_COLUMNS,
    Expectation,
    Otherwise,
    SourceFormat,
    SourceSpec,
    StaticTable,
    TableFormat,
    Tombstones,
    Watermark,
)
from headrace_spark.pipeline.file.units import parse_duration_s

if TYPE_CHECKING:
    from headrace_spark.pipeline.file.toml_section import Section

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_FORMATS = ("avro", "protobuf")


def read_source(section: Section) -> SourceSpec:
    """A `[[source]]`. Raises PipelineError."""
    name = _table_name(section, "orders")
    topics, topic_pattern = _topics(section)
    source_format = cast(SourceFormat, section.choice("format", get_args(SourceFormat), "json"))
    schema, schema_file, message = _schema(section, source_format)
    watermark = section.parsed("watermark", _parse_watermark, None)
    dedupe = section.texts("dedupe")
    if dedupe and watermark is None:
        hint = 'duplicates are remembered as long as the watermark says, for example watermark = "at 10 minutes"'
        raise section.error("dedupe", "has dedupe, but no watermark", hint)
    if "registry_prefix" in section and source_format not in _FILE_FORMATS:
        raise section.error("registry_prefix", f"registry_prefix does not go with {source_format}", "leave it out")
    options = section.settings("options")
    refuse_secret_options(section, options)
    return SourceSpec(
        name=name,
        topics=topics,
        topic_pattern=topic_pattern,
        format=source_format,
        schema=schema,
        schema_file=schema_file,
        message=message,
        has_registry_prefix=section.flag("registry_prefix", default=False),
        starting=_starting(section),
        watermark=watermark,
        dedupe=dedupe,
        metadata=_metadata(section),
        undecodable=cast(Otherwise, section.choice("undecodable", get_args(Otherwise), "dead-letter")),
        tombstones=_tombstones(section, source_format),
        records_per_batch_max=section.count("records_per_batch_max", 1) if "records_per_batch_max" in section else None,
        is_data_loss_fatal=section.flag("fail_on_data_loss", default=True),
        is_committed_only=section.choice("isolation", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_committed",
        options=options,
        key_path=section.key_path,
    )


def _table_name(section: Section, example: str) -> str:
    name = section.required_text("name", example)
    if not _TABLE_NAME.fullmatch(name):
        hint = "it is a table's name in SQL: letters, digits and '_', no digit first"
        raise section.error("name", f"cannot be named {name!r}", hint)
    return name


def _topics(section: Section) -> tuple[tuple[str, ...], str | None]:
    topics, pattern = section.texts("topic"), section.optional_text("topic_pattern")
    if topics and pattern is not None:
        raise section.error("topic_pattern", "has both topic and topic_pattern", "keep the one that is meant")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise section.error("topic_pattern", f"topic_pattern is no regular expression: {error}") from error
    elif not topics:
        raise section.error(None, "needs 'topic'", 'for example topic = "orders"')
    for topic in topics:
        section.check_topic_name(topic)
    return topics, pattern


def _schema(section: Section, source_format: SourceFormat) -> tuple[str | None, str | None, str | None]:
    """Columns, schema file and message: what the format needs, and nothing else."""
    needs_file = source_format in _FILE_FORMATS
    if source_format in {"json", "csv"}:
        section.required_text("schema", "id BIGINT, sku STRING, at TIMESTAMP")
    elif "schema" in section:
        what = "the columns are those of the schema file" if needs_file else "the table has the one column 'value'"
        raise section.error("schema", f"schema does not go with {source_format}", f"leave it out: {what}")
    if needs_file:
        section.required_text("schema_file", "orders.avsc" if source_format == "avro" else "orders.desc")
    if source_format == "protobuf":
        section.required_text("message", "shop.Order")
    for name, formats in (("schema_file", _FILE_FORMATS), ("message", ("protobuf",))):
        if name in section and source_format not in formats:
            raise section.error(name, f"{name} does not go with {source_format}", f"it is for {' and '.join(formats)}")
    schema_file = section.optional_text("schema_file")
    return (
        section.optional_text("schema"),
        section.file.resolve(schema_file) if schema_file is not None else None,
        section.optional_text("message"),
    )


def _starting(section: Section) -> Literal["earliest", "latest"] | datetime:
    value = section.raw("starting")
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = section.text("starting", "earliest")
    if text in {"earliest", "latest"}:
        return cast(Literal["earliest", "latest"], text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "there are earliest, latest, or a time such as 2026-01-31T12:00:00Z"
        raise section.error("starting", f"starting is {text!r}", hint) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _parse_watermark(text: str) -> Watermark:
    column, _, delay = text.strip().partition(" ")
    if not delay.strip():
        raise ValueError(f"{text!r} is not a column and a duration, as in 'at 2 minutes'")
    parse_duration_s(delay)
    return Watermark(column, delay.strip())


def _metadata(section: Section) -> tuple[str, ...]:
    value = section.raw("metadata")
    if isinstance(value, bool):
        return METADATA_COLUMNS if value else ()
    columns = section.texts("metadata")
    for column in columns:
        if column not in METADATA_COLUMNS:
            hint = f"there are {', '.join(METADATA_COLUMNS)}"
            raise section.error("metadata", f"metadata has no column {column!r}", hint)
    return columns


def _tombstones(section: Section, source_format: SourceFormat) -> Tombstones:
    # Text and raw bytes have a good value for "nothing", the others do not.
    default = "keep" if source_format in {"text", "raw"} else "dead-letter"
    return cast(Tombstones, section.choice("tombstones", get_args(Tombstones), default))


def read_static_table(section: Section) -> StaticTable:
    """A `[[table]]`. Raises PipelineError."""
    name = _table_name(section, "products")
    kinds = [kind for kind in get_args(TableFormat) if kind in section]
    if len(kinds) != 1:
        problem = f"has both {' and '.join(kinds)}" if kinds else "does not say what to read"
        raise section.error(
            kinds[-1] if kinds else None, problem, "give one of parquet, csv, json and delta, with a path"
        )
    (kind,) = kinds
    if kind == "delta" and "schema" in section:
        raise section.error("schema", "schema does not go with delta", "leave it out: a Delta table knows its columns")
    return StaticTable(
        name,
        cast(TableFormat, kind),
        section.file.resolve(section.required_text(kind, f"{name}.{kind}")),
        section.optional_text("schema"),
        section.settings("options"),
        section.key_path,
    )


def read_expectation(section: Section, number: int, sources: tuple[SourceSpec, ...]) -> Expectation:
    """An `[[expect]]`, the `number`-th of the file. Raises PipelineError."""
    sql = section.required_text("sql", "amount > 0")
    names = [source.name for source in sources]
    source = section.optional_text("source")
    if source is None and len(names) > 1:
        raise section.error(None, "does not say which source it is about", f'for example source = "{names[0]}"')
    if source is not None and source not in names:
        raise section.error(
            "source", f"is about the source '{source}', which is not there", choices_hint(source, names)
        )
    return Expectation(
        section.text("name") or f"expectation {number}",
        source or names[0],
        sql,
        cast(Otherwise, section.choice("otherwise", get_args(Otherwise), "dead-letter")),
        section.key_path,
    )
