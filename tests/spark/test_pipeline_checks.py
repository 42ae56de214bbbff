"""What can be known of a pipeline before it runs: its problems, and what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.inspect.explain import explain
from headrace_spark.pipeline.inspect.validate import problems_of
from headrace_spark.pipeline.tables.query import result_of
from headrace_spark.pipeline.tables.sources import read_sources
from tests.spark.pipeline_records import write_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing import Broker
    from headrace_spark.pipeline.file.spec import Pipeline

pytestmark = pytest.mark.xdist_group("spark")

WINDOWS = """\
SELECT window(at, '1 minute').start AS minute, sku, sum(amount) AS amount
FROM orders GROUP BY window(at, '1 minute'), sku"""
TEXT = f'''\
name = "per-minute"
[[source]]
name = "orders"
topic = "checked-orders"
schema = "id BIGINT, sku STRING, amount DOUBLE, at TIMESTAMP"
watermark = "at 2 minutes"
dedupe = "id"
[[expect]]
name = "positive amount"
sql = "amount > 0"
[query]
sql = """
{WINDOWS}
"""
[[sink]]
topic = "checked-output"
key = "sku"
mode = "update"
[run]
trigger = "available-now"
'''


@pytest.fixture(scope="module")
def orders(broker: Broker) -> str:
    broker.create_topic("checked-orders", partitions=2)
    return "checked-orders"


def pipeline_from(text: str, broker: Broker, directory: Path) -> Pipeline:
    return load(write_pipeline(directory, text), bootstrap_servers=broker.bootstrap_servers)


def found(spark: SparkSession, pipeline: Pipeline) -> list[str]:
    return [str(problem).replace(f"{pipeline.path.parent}/", "") for problem in problems_of(pipeline, spark)]


def test_a_good_pipeline_has_no_problems(spark: SparkSession, broker: Broker, orders: str, tmp_path: Path) -> None:
    assert found(spark, pipeline_from(TEXT, broker, tmp_path)) == []


def test_all_problems_are_told_at_once(spark: SparkSession, broker: Broker, orders: str, tmp_path: Path) -> None:
    second = '[[source]]\nname = "b"\ntopic_pattern = "none-.*"\nschema = "x INTT"\n[[expect]]\nsource = "orders"'
    text = TEXT.replace("checked-orders", "no-orders").replace("amount > 0", "amont > 0")
    problems = found(spark, pipeline_from(text.replace("[[expect]]", second), broker, tmp_path))
    assert [problem.partition(";")[0].partition(": ")[0] for problem in problems] == [
        "orders.toml:4",
        "orders.toml:10",
        "orders.toml:15",
        "orders.toml:11",
    ]
    assert problems[0].endswith(
        "the topic 'no-orders' does not exist; create it: headrace topics create --name no-orders"
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('mode = "update"', 'mode = "append"', None),
        (
            'watermark = "at 2 minutes"\ndedupe = "id"\n',
            "",
            "orders.toml:17: mode append does not go with the query: invalid streaming output mode: append. This",
        ),
        ('key = "sku"', 'key = "skuu"', "orders.toml:18: the result has no column 'skuu' for key; did you mean 'sku'?"),
        ('key = "sku"', 'format = "raw"', "orders.toml:18: the result has no column 'value', which raw writes; it has"),
        ("sum(amount)", "sum(amont)", "orders.toml:13: the SQL is wrong: a column, variable, or function parameter"),
        ("FROM orders GROUP", "FROM order GROUP", "orders.toml:14: the SQL is wrong: the table or view `order` "),
    ],
)
def test_a_query_and_its_sink_are_checked_together(
    spark: SparkSession, broker: Broker, orders: str, tmp_path: Path, before: str, after: str, expected: str | None
) -> None:
    text = TEXT.replace(before, after)
    if "append" in (expected or ""):
        text = text.replace('mode = "update"', 'mode = "append"')
    problems = found(spark, pipeline_from(text, broker, tmp_path))
    assert len(problems) == (expected is not None)
    if expected is not None:
        assert problems[0].startswith(expected)


def test_a_query_without_a_stream(spark: SparkSession, broker: Broker, orders: str, tmp_path: Path) -> None:
    text = TEXT.replace(WINDOWS, "SELECT 'a' AS sku")
    assert found(spark, pipeline_from(text, broker, tmp_path)) == [
        "orders.toml:11: the result is not a stream; the query must read one of the sources"
    ]


def test_a_cluster_that_is_away(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = load(write_pipeline(tmp_path, TEXT), bootstrap_servers="127.0.0.1:1")
    (problem,) = found(spark, pipeline)
    assert problem.startswith("orders.toml: the cluster does not answer: ")


def test_a_pipeline_in_words(spark: SparkSession, broker: Broker, orders: str, tmp_path: Path) -> None:
    pipeline = pipeline_from(TEXT, broker, tmp_path)
    words = explain(pipeline, spark)
    for line in (
        f"pipeline per-minute (orders.toml) on {broker.bootstrap_servers}",
        "  orders: topic checked-orders, from the earliest offset, committed records only",
        "    decoded as json: id BIGINT, sku STRING, amount DOUBLE, at TIMESTAMP",
        "    expected: amount > 0 (positive amount), otherwise dead-letter",
        "    watermark: records may be up to 2 minutes late by at",
        "    doubles by id are dropped within the watermark",
        "  gives minute TIMESTAMP, sku STRING, amount DOUBLE",
        "  topic-checked-output: topic checked-output, key sku, value json, mode update",
        "  dead-letters: topic per-minute.dead-letters, with what happened in the headers",
        "    topic-checked-output begins: it has no checkpoint yet",
    ):
        assert line in words.splitlines()
    plan = words[words.index("plan, the last step first:") : words.index("gives minute")].splitlines()
    assert [line.split()[0] for line in plan[1:-1]] == ["Aggregate", "Filter", "orders"]


def test_what_a_restart_would_do_is_read_from_the_checkpoint(
    spark: SparkSession, broker: Broker, orders: str, tmp_path: Path
) -> None:
    """The whole way as a stream, too: watermark, doubles and window included."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in (1, 2, 2):
        value = f'{{"id": {number}, "sku": "a", "amount": 1.5, "at": "2026-01-31T12:00:00Z"}}'
        producer.produce(orders, value, partition=0)
    producer.produce(orders, '{"id": 3, "sku": "a", "amount": -1}', partition=1)
    producer.flush()
    pipeline = pipeline_from(TEXT, broker, tmp_path)
    result = result_of(spark, pipeline, read_sources(spark, pipeline).by_name)
    query = (
        result.writeStream.format("memory")
        .queryName("checked_result")
        .outputMode("complete")
        .option("checkpointLocation", pipeline.checkpoint_of("topic-checked-output"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [(row.sku, row.amount) for row in spark.table("checked_result").collect()] == [("a", 3.0)]
    words = explain(pipeline, spark)
    batch = query.lastProgress.batchId
    assert f"topic-checked-output goes on after batch {batch}, from checked-orders-0@3, checked-orders-1@1;" in words
    (tmp_path / "checkpoints/per-minute/topic-checked-output/commits" / str(batch)).unlink()
    assert f"topic-checked-output repeats batch {batch}, up to checked-orders-0@3," in explain(pipeline, spark)
