"""What a Spark program does with topics, with the word for `format` left open. Runs in a `SparkProcess`."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Options = dict[str, str]
Progress = dict[str, Any]


def read(spark: SparkSession, format_: str, options: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """The rows in the order of their topics, partitions and offsets."""
    rows = spark.read.format(format_).options(**options).load().collect()
    return [plain(row) for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))]


def plain(value: Any) -> Any:
    """Rows as tuples, byte arrays as bytes, times in milliseconds, so that they compare and travel."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)  # Spark gives local time without a zone
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def schema(spark: SparkSession, format_: str, options: Mapping[str, str]) -> str:
    return spark.read.format(format_).options(**options).load().schema.simpleString()


def partition_count(spark: SparkSession, format_: str, options: Mapping[str, str]) -> int:
    """How many tasks read it."""
    return spark.read.format(format_).options(**options).load().rdd.getNumPartitions()


def write(
    spark: SparkSession,
    format_: str,
    rows: Sequence[tuple[Any, ...]],
    columns: str,
    options: Mapping[str, str],
    mode: str = "append",
) -> None:
    """In a mode that is named: Spark's default is for tables that are created, and it lets no Python source do so."""
    spark.createDataFrame(list(rows), columns).write.format(format_).options(**options).mode(mode).save()


def copy_available(
    spark: SparkSession, source: tuple[str, Options], sink: tuple[str, Options], checkpoint: str
) -> list[Progress]:
    """Stream everything that is there from topic to topic; the progress of each batch that read something."""
    frame = spark.readStream.format(source[0]).options(**source[1]).load()
    columns = [name for name in ("key", "value", "headers") if name in frame.columns]
    writer = frame.select(*columns).writeStream.format(sink[0]).options(**sink[1])
    return _finish(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())


def drain(spark: SparkSession, source: tuple[str, Options], checkpoint: str) -> list[Progress]:
    """Stream everything that is there to nowhere."""
    frame = spark.readStream.format(source[0]).options(**source[1]).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return _finish(writer.trigger(availableNow=True).start())


def begin_copy(
    spark: SparkSession, source: tuple[str, Options], sink: tuple[str, Options], checkpoint: str, query_name: str
) -> None:
    """Stream from topic to topic until somebody stops it. Returns when the first batch, of nothing, is planned."""
    frame = spark.readStream.format(source[0]).options(**source[1]).load()
    writer = frame.select("value").writeStream.format(sink[0]).options(**sink[1]).queryName(query_name)
    writer.option("checkpointLocation", checkpoint).start().processAllAvailable()


def catch_up(spark: SparkSession, query_name: str) -> None:
    _running(spark, query_name).processAllAvailable()


def stop(spark: SparkSession, query_name: str) -> None:
    _running(spark, query_name).stop()


def _running(spark: SparkSession, query_name: str) -> StreamingQuery:
    (query,) = (query for query in spark.streams.active if query.name == query_name)
    return query


def _finish(query: StreamingQuery) -> list[Progress]:
    query.awaitTermination()
    batches = [json.loads(progress.json) for progress in query.recentProgress]
    return [batch for batch in batches if batch["numInputRows"] > 0]


def executor_count(spark: SparkSession) -> int:
    """How many there are besides the driver."""
    status = spark.sparkContext._jsc.sc().statusTracker()
    return len(status.getExecutorInfos()) - 1


def application_id(spark: SparkSession) -> str:
    return spark.sparkContext.applicationId
