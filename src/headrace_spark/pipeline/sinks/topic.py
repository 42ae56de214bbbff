"""Records to a topic, each batch exactly once: one transaction that also notes the batch's number.

Rows go through `foreachBatch` and not through Spark's own stream writer, because Spark refuses `update` mode to
writers in Python. The options `txnAppId` and `txnVersion` make it the same protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace_spark.pipeline.file.spec import ClusterSpec, TopicSink
    from headrace_spark.pipeline.sinks.batch_name import BatchName

KEEP_NULLS = {"ignoreNullFields": "false"}  # a reader can tell a column without a value from one that is not there
RAW_VALUE = "value"


class TopicWriter:
    """Writes rows that are records already, as `records_of` makes them."""

    def __init__(self, cluster: ClusterSpec, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    def __call__(self, batch: DataFrame, name: BatchName) -> None:
        (
            batch.write.format("headrace")
            .mode("append")
            .options(**self._cluster.options)
            .option("topic", self._topic)
            .option("txnAppId", name.query_id)
            .option("txnVersion", name.batch_id)
            .option("txnStrict", True)  # a checkpoint that was set back would leave records out
            .save()
        )


def records_of(rows: DataFrame, sink: TopicSink) -> DataFrame:
    """Rows as records: columns key, value and headers."""
    columns = [_value(rows, sink).alias("value")]
    if sink.key is not None:
        columns.append(_text(rows, sink.key).alias("key"))
    if sink.headers is not None:
        columns.append(_headers(sink.headers).alias("headers"))
    return rows.select(*columns)


def value_columns(columns: list[str], sink: TopicSink) -> list[str]:
    """Those that make up the value. In JSON and CSV the key stands there too; headers never do."""
    without_headers = [name for name in columns if name != sink.headers]
    if sink.format in {"json", "csv"}:
        return without_headers
    return [name for name in without_headers if name != sink.key]


def _value(rows: DataFrame, sink: TopicSink) -> Column:
    names = value_columns(rows.columns, sink)
    match sink.format:
        case "json":
            return F.to_json(F.struct(*(_named(name) for name in names)), KEEP_NULLS)
        case "csv":
            return F.to_csv(F.struct(*(_named(name) for name in names)))
        case "text":
            return _text(rows, names[0] if len(names) == 1 else RAW_VALUE)
        case "raw":
            return _named(RAW_VALUE)
        case _:
            assert_never(sink.format)


def _text(rows: DataFrame, name: str) -> Column:
    """A column as text; bytes stay bytes."""
    is_binary = name in rows.columns and isinstance(rows.schema[name].dataType, BinaryType)
    return _named(name) if is_binary else _named(name).cast("string")


def _headers(name: str) -> Column:
    """A map of names to texts, as the sink takes headers: a list of pairs."""
    entries = F.map_entries(_named(name).cast("map<string,string>"))
    return F.transform(entries, lambda pair: F.struct(pair.key.alias("key"), pair.value.cast("binary").alias("value")))


def _named(name: str) -> Column:
    """A column by its very name, whatever signs are in it."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")
