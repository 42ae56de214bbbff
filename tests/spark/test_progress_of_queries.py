"""Spark's position as a consumer group: what Kafka's tools show of a query."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryStartedEvent, QueryTerminatedEvent

from headrace.client.connections.coordinator import Coordinator, CoordinatorKind
from headrace.client.groups.group_offsets import fetch_offsets
from headrace_spark.blocking import BlockingCluster
from headrace_spark.progress import report_progress
from tests.spark.source_topics import new_topic, numbered, produce

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")


def committed(broker: Broker, group: str) -> dict[str, int]:
    with BlockingCluster(broker.bootstrap_servers) as blocking:
        coordinator = Coordinator(blocking.cluster, CoordinatorKind.GROUP, group)
        found = blocking.run(fetch_offsets(coordinator, group))
    return {str(name): offset.offset for name, offset in found.items()}


def run(
    spark: SparkSession, broker: Broker, topic: str, name: str, directory: Path, limit: int = 1000
) -> StreamingQuery:
    """Read what is there, in batches of at most `limit`."""
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("headrace").options(**options, maxOffsetsPerTrigger=str(limit)).load()
    query = (
        rows.writeStream.format("noop")
        .queryName(name)
        .option("checkpointLocation", str(directory / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def lags(broker: Broker, group: str) -> list[int]:
    """What the command line says of each partition."""
    command = [
        sys.executable,
        "-m",
        "headrace",
        "lag",
        "--group",
        group,
        "--bootstrap-server",
        broker.bootstrap_servers,
    ]
    shown = subprocess.run([*command, "--format", "json"], check=True, capture_output=True, text=True, timeout=280)
    return [partition["lag"] for partition in json.loads(shown.stdout)["partitions"]]


def new_name(what: str) -> str:
    return f"{what}-{uuid4().hex[:8]}"


def test_each_query_has_a_group_that_ends_where_it_ended(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, name = new_topic(broker, 2), new_name("query")
    produce(broker, topic, numbered(7))
    with report_progress(spark, broker.bootstrap_servers):
        run(spark, broker, topic, name, tmp_path, limit=4)
    assert committed(broker, f"pipeline.{name}") == {f"{topic}-0": 7, f"{topic}-1": 0}
    assert lags(broker, f"pipeline.{name}") == [0, 0]
    produce(broker, topic, ["unreported"])
    run(spark, broker, topic, name, tmp_path)
    assert committed(broker, f"pipeline.{name}") == {f"{topic}-0": 7, f"{topic}-1": 0}, "it was closed"


def test_a_shared_group_follows_the_slowest_query(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, group = new_topic(broker), new_name("group")
    fast, slow, other = new_name("fast"), new_name("slow"), new_name("other")
    produce(broker, topic, numbered(5))
    with report_progress(spark, broker.bootstrap_servers, group=group, queries=[fast, slow]):
        run(spark, broker, topic, slow, tmp_path)
        produce(broker, topic, numbered(5))
        run(spark, broker, topic, other, tmp_path)
        run(spark, broker, topic, fast, tmp_path)
    assert committed(broker, group) == {f"{topic}-0": 5}
    with report_progress(spark, broker.bootstrap_servers, group=group, queries=[fast, slow]):
        run(spark, broker, topic, fast, tmp_path)  # it has nothing to read, so it has nothing to tell
        run(spark, broker, topic, slow, tmp_path)
    assert committed(broker, group) == {f"{topic}-0": 10}


def test_a_query_that_has_not_told_yet_holds_the_group_back_unless_it_is_idle(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, group = new_topic(broker), new_name("group")
    query_id, run_id, now = uuid4(), uuid4(), "2026-01-01T00:00:00Z"
    produce(broker, topic, ["a"])
    with report_progress(spark, broker.bootstrap_servers, group=group) as reporter:
        reporter.onQueryStarted(QueryStartedEvent(query_id, run_id, "silent", now, set()))
        reporter.onQueryTerminated(QueryTerminatedEvent(query_id, run_id, "it failed", None))
        run(spark, broker, topic, "reads-first", tmp_path)
    assert committed(broker, group) == {}, "what the failed query has read is not known"
    with report_progress(spark, broker.bootstrap_servers, group=group) as reporter:
        reporter.onQueryStarted(QueryStartedEvent(query_id, run_id, "silent", now, set()))
        reporter.onQueryIdle(QueryIdleEvent(query_id, run_id, now))
        run(spark, broker, topic, "reads-second", tmp_path)
    assert committed(broker, group) == {f"{topic}-0": 1}


def test_trouble_is_a_warning_and_never_the_querys(
    spark: SparkSession, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, name = new_topic(broker), new_name("query")
    produce(broker, topic, numbered(4))
    with caplog.at_level(logging.WARNING), report_progress(spark, "127.0.0.1:1"):
        query = run(spark, broker, topic, name, tmp_path, limit=2)
    assert query.exception() is None
    assert sum(each.numInputRows for each in query.recentProgress) == 4
    warnings = [record.getMessage() for record in caplog.records if record.name == "headrace_spark.progress"]
    assert len(warnings) == 1
    assert f"'pipeline.{name}' could not be committed" in warnings[0]
