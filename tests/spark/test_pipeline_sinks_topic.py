"""What a pipeline's rows look like as records of a topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headrace_spark.pipeline.file.spec import TopicSink
from headrace_spark.pipeline.sinks.topic import records_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def sink(form: Any = "json", key: str | None = None, headers: str | None = None) -> TopicSink:
    return TopicSink("topic-t", "t", key, form, headers, "append", ())


@pytest.fixture(scope="module")
def orders(spark: SparkSession) -> DataFrame:
    columns = "id INT, sku STRING, at TIMESTAMP, tags MAP<STRING, STRING>, `odd``name.x` INT, value BINARY"
    return spark.sql(
        "SELECT 7 AS id, CAST(NULL AS STRING) AS sku, TIMESTAMP '2026-01-01 00:00:00Z' AS at, map('k', 'v') AS tags, "
        "1 AS `odd``name.x`, CAST('bytes' AS BINARY) AS value"
    ).to(spark.createDataFrame([], columns).schema)


def only_record(rows: DataFrame, form: TopicSink) -> dict[str, Any]:
    (row,) = records_of(rows, form).collect()
    return {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}


def test_json_has_all_columns_those_without_a_value_too(orders: DataFrame) -> None:
    record = only_record(orders.drop("value"), sink(key="id"))
    assert record["key"] == "7"
    value = json.loads(record["value"])
    assert value.pop("at").startswith("2026-01-01T00:00:00")
    assert value == {"id": 7, "sku": None, "tags": {"k": "v"}, "odd`name.x": 1}


def test_headers_come_from_a_map_and_are_not_in_the_value(orders: DataFrame) -> None:
    record = only_record(orders.select("id", "tags"), sink(headers="tags"))
    assert json.loads(record["value"]) == {"id": 7}
    ((name, value),) = record["headers"]
    assert (name, bytes(value)) == ("k", b"v")


def test_csv_has_the_columns_in_their_order(orders: DataFrame) -> None:
    assert only_record(orders.select("`odd``name.x`", "id"), sink("csv", key="id"))["value"] == "1,7"


def test_text_is_the_one_column_that_is_not_the_key(orders: DataFrame) -> None:
    record = only_record(orders.select("id", "at"), sink("text", key="id"))
    assert record["value"].startswith("2026-01-01 00:00:00")


def test_raw_passes_bytes_on_as_they_are(orders: DataFrame) -> None:
    assert only_record(orders, sink("raw", key="value")) == {"value": b"bytes", "key": b"bytes"}
