"""The sink under a real Spark: streams, batches, restarts from a checkpoint, and what Spark refuses."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import substring, udf

from tests.clients.nodes import new_name
from tests.unit.spark.sink_inputs import committed_records, committed_values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")

ROWS_PER_FILE = 500
FIRST_WRITTEN_S = 1_700_000_000


def write_input(folder: Path, number: int, width: int = 10) -> list[bytes]:
    """One more file of rows for a stream to find. Returns the values."""
    folder.mkdir(exist_ok=True)
    values = [f"{number}/{row}".ljust(width, ".") for row in range(ROWS_PER_FILE)]
    file = folder / f"{number:04}.txt"
    file.write_text("\n".join(values) + "\n")
    os.utime(file, (FIRST_WRITTEN_S + number, FIRST_WRITTEN_S + number))  # a stream takes files by their times
    return [value.encode() for value in values]


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(folder))


@contextmanager
def small_arrow_batches(spark: SparkSession) -> Iterator[None]:
    """So that a task has staged some of its rows while others are still to come."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def run_stream(rows: DataFrame, broker: Broker, topic: str, checkpoint: Path, mode: str = "append") -> None:
    query = (
        rows.writeStream.format("headrace")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.parametrize("width", [10, 1000], ids=["inline", "staged"])
def test_a_stream_is_published_exactly_once(spark: SparkSession, broker: Broker, tmp_path: Path, width: int) -> None:
    topic = new_name("stream")
    broker.create_topic(topic, partitions=3)
    expected = [value for number in range(3) for value in write_input(tmp_path / "in", number, width)]
    run_stream(read_stream(spark, tmp_path / "in"), broker, topic, tmp_path / "checkpoint")
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == sorted(expected)

    # As if the driver had died after the broker's commit, before Spark's own: the last batch is computed again.
    (last,) = (tmp_path / "checkpoint" / "commits").glob("2")
    last.unlink()
    for checksum in (tmp_path / "checkpoint" / "commits").glob(".2.*"):
        checksum.unlink()
    run_stream(read_stream(spark, tmp_path / "in"), broker, topic, tmp_path / "checkpoint")
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == sorted(expected)
    expected += write_input(tmp_path / "in", 3, width)
    run_stream(read_stream(spark, tmp_path / "in"), broker, topic, tmp_path / "checkpoint")
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == sorted(expected)


def test_a_task_that_fails_after_staging_leaves_no_trace(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_name("failing")
    broker.create_topic(topic)
    expected = [value for number in range(2) for value in write_input(tmp_path / "in", number, width=1000)]
    (tmp_path / "mine").touch()
    mine = str(tmp_path / "mine")

    @udf("string", useArrow=False)
    def explode_at_the_end(value: str) -> str:
        if value.startswith(f"1/{ROWS_PER_FILE - 1}.") and os.path.exists(mine):
            raise RuntimeError("a mine")
        return value

    rows = read_stream(spark, tmp_path / "in").select(explode_at_the_end("value").alias("value"))
    with small_arrow_batches(spark), pytest.raises(StreamingQueryException, match="a mine"):
        run_stream(rows, broker, topic, tmp_path / "checkpoint")
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == sorted(expected[:ROWS_PER_FILE])
    (tmp_path / "mine").unlink()
    run_stream(rows, broker, topic, tmp_path / "checkpoint")
    assert sorted(committed_values(broker.bootstrap_servers, topic)) == sorted(expected)


def test_updates_go_through_for_each_batch_exactly_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_name("updates")
    for number in range(2):
        write_input(tmp_path / "in", number)
    counts = read_stream(spark, tmp_path / "in").groupBy(substring("value", 1, 2).alias("key")).count()
    counts = counts.selectExpr("key", "cast(count as string) as value")

    def write(rows: DataFrame, batch_id: int) -> None:
        for _ in range(2):  # as if the first had been cut off after its commit
            (
                rows.write.format("headrace")
                .option("kafka.bootstrap.servers", broker.bootstrap_servers)
                .option("topic", topic)
                .option("txnAppId", str(tmp_path))
                .option("txnVersion", str(batch_id))
                .mode("append")
                .save()
            )

    query = (
        counts.writeStream.foreachBatch(write)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = [(message.key(), message.value()) for message in committed_records(broker.bootstrap_servers, topic)]
    assert sorted(found) == [(b"0/", b"500"), (b"1/", b"500")]


def test_complete_mode_appends_the_whole_result_each_time(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_name("complete")
    for number in range(2):
        write_input(tmp_path / "in", number)
    counts = read_stream(spark, tmp_path / "in").groupBy(substring("value", 1, 2).alias("key")).count()
    counts = counts.selectExpr("key", "cast(count as string) as value")
    run_stream(counts, broker, topic, tmp_path / "checkpoint", mode="complete")
    assert sorted(message.key() for message in committed_records(broker.bootstrap_servers, topic)) == [
        b"0/",
        b"0/",
        b"1/",
    ]


def test_spark_itself_refuses_update_mode(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    write_input(tmp_path / "in", 0)
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        run_stream(read_stream(spark, tmp_path / "in"), broker, "any", tmp_path / "checkpoint", mode="update")


def test_a_plain_write_arrives_and_is_read_back_by_the_source(spark: SparkSession, broker: Broker) -> None:
    topic = new_name("plain")
    broker.create_topic(topic, partitions=2)
    rows = spark.range(1000).selectExpr(
        "cast(id as string) as key",
        "cast(id * id as string) as value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
        "timestamp_millis(id) as timestamp",
    )
    bootstrap = ("kafka.bootstrap.servers", broker.bootstrap_servers)
    rows.write.format("headrace").option(*bootstrap).option("topic", topic).mode("append").save()
    found = (
        spark.read.format("headrace")
        .option(*bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .selectExpr("cast(key as string) key", "cast(value as string) value", "headers", "timestamp")
    )
    assert found.exceptAll(rows).count() == rows.exceptAll(found).count() == 0


def test_mistakes_are_told_before_anything_is_written(spark: SparkSession, broker: Broker) -> None:
    topic = new_name("mistakes")
    broker.create_topic(topic)
    good = spark.range(3).selectExpr("cast(id as string) as value")
    for rows, mode, complaint in [
        (spark.range(3).selectExpr("id as value"), "append", "column 'value' is of type bigint"),
        (good, "overwrite", "a topic cannot be overwritten"),
        (good, "ignore", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ]:
        write = rows.write.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        with pytest.raises(AnalysisException, match=complaint):
            write.option("topic", topic).mode(mode).save()
    assert committed_values(broker.bootstrap_servers, topic) == []
