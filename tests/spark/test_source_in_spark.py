"""The source inside Spark: found by its name, read in batches and as a stream, restarted from its checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql.functions import col

from headrace.model.names import TopicPartition
from headrace_spark.source.offsets import parse_offsets
from tests.spark.source_topics import add_partitions, delete_records, new_topic, numbered, produce

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")


def read(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    return spark.read.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap_servers).load(**options)


def stream(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    servers = broker.bootstrap_servers
    return spark.readStream.format("headrace").option("kafka.bootstrap.servers", servers).load(**options)


def run_available(rows: DataFrame, into: Path) -> StreamingQuery:
    """Append the values to files, as far as they are there now."""
    query = (
        rows.select(col("value").cast("string"))
        .writeStream.format("text")
        .option("checkpointLocation", str(into / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(into / "out"))
    )
    query.awaitTermination()
    return query


def written(spark: SparkSession, into: Path) -> list[str]:
    return sorted(row.value for row in spark.read.text(str(into / "out")).collect())


def test_a_batch_query_of_every_type(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker, 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd"})
    for number in range(300):
        producer.produce(
            topic,
            None if number % 10 == 0 else f"{number}",
            f"k{number}" if number % 2 else None,
            partition=number % 3,
            timestamp=1_700_000_000_000 + number,
            headers=[("n", str(number).encode())] if number % 3 == 0 else None,
        )
    assert producer.flush(30) == 0
    rows = read(spark, broker, subscribe=topic, includeHeaders="true", minPartitions="5")
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows.createOrReplaceTempView("records")
    (found,) = spark.sql(
        """
        SELECT count(*) AS count, count(key) AS keys, sum(cast(cast(value AS string) AS int)) AS sum,
               count(DISTINCT partition, offset) AS places, max(unix_millis(timestamp)) AS latest_ms,
               sum(size(headers)) FILTER (WHERE headers IS NOT NULL) AS headers,
               count_if(cast(headers[0].value AS string) = cast(value AS string)) AS same,
               collect_set(topic) AS topics, count(DISTINCT task) AS tasks
        FROM (SELECT *, spark_partition_id() AS task FROM records)
        """
    ).collect()
    expected_sum = sum(number for number in range(300) if number % 10)
    assert (found["count"], found.keys, found.sum, found.places) == (300, 150, expected_sum, 300)
    assert (found.latest_ms, found.headers, found.same) == (1_700_000_000_299, 100, 90)
    assert found.topics == [topic]
    assert found.tasks == 6


def test_a_limit_does_not_read_everything_and_columns_are_fewer(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(1000))
    rows = read(spark, broker, subscribe=topic, columns="value", startingOffsets=f'{{"{topic}":{{"0":990}}}}')
    assert rows.columns == ["value"]
    assert [bytes(row.value).decode() for row in rows.limit(2).collect()] == ["v990", "v991"]
    assert read(spark, broker, subscribePattern="nothing-matches").count() == 0


def test_errors_are_short_and_say_what_to_do(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    for options, says in (
        ({}, "exactly one of the options 'assign', 'subscribe' and 'subscribePattern' is needed; none is there"),
        ({"subscribe": topic, "minPartitions": "0"}, "option 'minPartitions' is '0'; expected is a positive"),
    ):
        with pytest.raises(AnalysisException, match=says) as told:
            read(spark, broker, **options)
        assert len(str(told.value).splitlines()) <= 6
    for options, says in (
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"subscribe": topic, "startingOffsets": "latest"}, "a batch query cannot start at the latest offset"),
        ({"subscribe": topic, "schema": "id int"}, "the schema of this source is fixed"),
    ):
        with pytest.raises(AnalysisException, match=says) as told:
            read(spark, broker, **options).count()
        assert len(str(told.value).splitlines()) <= 6
    for options, says in (
        ({"subscribe": topic, "endingOffsets": "latest"}, "a streaming query has no end"),
        ({"subscribe": topic, "schema": "id int", "minPartitions": "0"}, "option 'minPartitions' is '0'"),
    ):
        query = stream(spark, broker, **options).writeStream.format("noop").start()
        with pytest.raises(StreamingQueryException, match=says) as failed:
            query.awaitTermination()
        assert "UnboundLocalError" not in str(failed.value)


def test_a_task_that_finds_records_gone_says_so(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(10))
    rows = read(spark, broker, subscribe=topic)
    assert rows.count() == 10  # the plan is made now, and kept
    delete_records(broker, {TopicPartition(topic, 0): 9})
    with pytest.raises(PythonException, match="offsets 0 to 9 are wanted, but it holds offsets 9 to 9"):
        rows.collect()


def test_available_now_from_checkpoint_to_checkpoint(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker, 2)
    produce(broker, topic, numbered(30))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    query = run_available(stream(spark, broker, **options), tmp_path)
    assert written(spark, tmp_path) == sorted(numbered(30))
    progress = [each for each in query.recentProgress if each.numInputRows]
    assert [each.numInputRows for each in progress] == [20, 10]
    (source,) = progress[-1].sources
    assert parse_offsets(source.endOffset) == parse_offsets(source.latestOffset)
    assert json.loads(source.latestOffset) == {topic: {"0": 30, "1": 0}}
    offset_log = (tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()
    logged = json.loads(offset_log[-1])
    assert logged.pop(topic) == {"0": 30, "1": 0}, "the connector's form"
    (topic_id,) = logged
    assert (topic_id.partition(":")[0], logged[topic_id]) == (topic, {}), "and what it reads past"

    add_partitions(broker, topic, 3)
    produce(broker, topic, numbered(5, 30), partition=2)
    produce(broker, topic, numbered(5, 35), partition=1)
    run_available(stream(spark, broker, **options), tmp_path)
    assert written(spark, tmp_path) == sorted(numbered(40))

    delete_records(broker, {TopicPartition(topic, 0): 30})
    produce(broker, topic, numbered(3, 40))
    delete_records(broker, {TopicPartition(topic, 0): 32})
    with pytest.raises(
        StreamingQueryException, match=f"topic '{topic}', partition 0: the offsets from 30 on are wanted"
    ):
        run_available(stream(spark, broker, **options), tmp_path)
    run_available(stream(spark, broker, **options, failOnDataLoss="false"), tmp_path)
    assert written(spark, tmp_path) == sorted([*numbered(40), "v42"])


def test_a_query_that_runs_sees_what_comes(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, ["before"])
    rows = stream(spark, broker, subscribe=topic, columns="value,offset")
    query = rows.writeStream.format("memory").queryName("what_comes").start()
    try:
        query.processAllAvailable()
        produce(broker, topic, ["after"])
        query.processAllAvailable()
        found = spark.table("what_comes").collect()
    finally:
        query.stop()
    assert [(bytes(row.value), row.offset) for row in found] == [(b"after", 1)]
