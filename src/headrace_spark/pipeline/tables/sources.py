"""From a pipeline's sources to the tables of its query, and to its dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from headrace_spark.pipeline.spark_errors import quiet, said_by
from headrace_spark.pipeline.tables.static_tables import read_static_table
from headrace_spark.pipeline.tables.streaming_table import StreamingTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline, SourceSpec

COLUMNS_FOR_DEAD_LETTERS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


@dataclass(frozen=True)
class Tables:
    """What a pipeline's query reads, and what its sources reject."""

    by_name: dict[str, DataFrame]
    """Streaming tables, which hold valid rows only, and static tables."""
    dead_letters: DataFrame | None
    """Rejected records in the sink's columns: topic, key, value, headers. None if there can be none."""


def read_sources(spark: SparkSession, pipeline: Pipeline, *, is_streaming: bool = True) -> Tables:
    """Tables over the pipeline's topics. Without streaming they hold what the topics hold now. Raises PipelineError."""
    by_name, dead_letters = {}, []
    for source in pipeline.sources:
        table = StreamingTable(pipeline, source)
        # Two readers: each query reads for itself anyway, and dead letters need more of a record than most tables.
        by_name[source.name] = table.rows(_read(spark, pipeline, source, table.record_columns, is_streaming))
        if table.has_dead_letters:
            records = _read(spark, pipeline, source, COLUMNS_FOR_DEAD_LETTERS, is_streaming)
            dead_letters.append(table.dead_letters(records))
    return _tables(spark, pipeline, by_name, dead_letters)


def tables_of(spark: SparkSession, pipeline: Pipeline, records: Mapping[str, DataFrame]) -> Tables:
    """The same over records that are given: a DataFrame of `records.RECORD_SCHEMA` for each source's name.

    Raises PipelineError.
    """
    by_name, dead_letters = {}, []
    for source in pipeline.sources:
        table = StreamingTable(pipeline, source)
        by_name[source.name] = table.rows(records[source.name])
        if table.has_dead_letters:
            dead_letters.append(table.dead_letters(records[source.name]))
    return _tables(spark, pipeline, by_name, dead_letters)


def _tables(
    spark: SparkSession, pipeline: Pipeline, by_name: dict[str, DataFrame], dead_letters: list[DataFrame]
) -> Tables:
    for table in pipeline.tables:
        by_name[table.name] = read_static_table(spark, pipeline, table)
    return Tables(by_name, reduce(lambda left, right: left.unionByName(right), dead_letters) if dead_letters else None)


def _read(
    spark: SparkSession, pipeline: Pipeline, source: SourceSpec, columns: Iterable[str], is_streaming: bool
) -> DataFrame:
    options = {
        **pipeline.cluster.options,
        **source_options(source, is_streaming=is_streaming),
        "columns": ",".join(columns),
        **source.options,
    }
    try:
        with quiet():
            reader = spark.readStream if is_streaming else spark.read
            return reader.format("headrace").options(**options).load()
    except AnalysisException as error:
        raise pipeline.error(
            (*source.key_path, "options"), f"the source refuses its options: {said_by(error)}"
        ) from error


def source_options(source: SourceSpec, *, is_streaming: bool) -> dict[str, str]:
    """What the file says of a source, in the words of the Kafka connector."""
    options = {
        "failOnDataLoss": str(source.is_data_loss_fatal).lower(),
        "kafka.isolation.level": "read_committed" if source.is_committed_only else "read_uncommitted",
    }
    if source.topic_pattern is not None:
        options["subscribePattern"] = source.topic_pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if isinstance(source.starting, datetime):
        options["startingTimestamp"] = str(int(source.starting.timestamp() * 1000))
        options["startingOffsetsByTimestampStrategy"] = "latest"  # where nothing is that new yet, begin at the end
    elif is_streaming or source.starting == "earliest":
        options["startingOffsets"] = source.starting
    if source.records_per_batch_max is not None and is_streaming:
        options["maxOffsetsPerTrigger"] = str(source.records_per_batch_max)
    return options
