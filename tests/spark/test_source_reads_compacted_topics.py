"""Spark reads what compaction has left: batches end in gaps, and the positions that it keeps and tells are right."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace_spark.progress import report_progress
from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import PATIENCE_S, NodeProcess
from tests.spark.test_progress_of_queries import committed, lags

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "100"}
KEYS = [f"key {number}" for number in range(9)]
TURNS = 6
ALL = TURNS * len(KEYS)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Looks for something to compact all the time."""
    running = NodeProcess(tmp_path_factory.mktemp("eager"), {"log.cleaner.backoff.ms": "50"}).start()
    try:
        yield running
    finally:
        running.stop()


def update(node: NodeProcess, topic: str, first_turn: int) -> dict[int, str]:
    """New values, each turn of fewer keys, so that what stays lies apart. What compaction has left, by offset."""
    for turn in range(first_turn, first_turn + TURNS):
        keys = KEYS if turn % TURNS == 0 else KEYS[: len(KEYS) - turn % TURNS]
        padding = [Message(b"", b"key 0")] * (len(KEYS) - len(keys))  # of which at most the last stays
        Confluent().write(
            node.bootstrap_servers, topic, [*padding, *(Message(b"turn %d" % turn, key.encode()) for key in keys)]
        )
    deadline_s = time.monotonic() + PATIENCE_S
    while len(seen := Confluent().read(node.bootstrap_servers, topic)) > len(KEYS):
        assert time.monotonic() < deadline_s, "it was never compacted"
        time.sleep(0.05)
    return {one.offset: (one.message.value or b"").decode() for one in seen}


def found(rows: DataFrame) -> dict[int, str]:
    return {row.offset: bytes(row.value).decode() for row in rows.select("offset", "value").collect()}


def test_batches_and_streams_go_over_the_gaps(spark: SparkSession, node: NodeProcess, tmp_path: Path) -> None:
    topic = node.create_topic(f"compacted-{uuid4().hex[:8]}", configs=COMPACTED)
    options = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    name = f"query-{uuid4().hex[:8]}"
    everything: dict[int, str] = {}
    for first_turn in (0, TURNS):
        left = update(node, topic, first_turn)
        assert len(left) == len(KEYS)
        assert any(offset + 1 not in left for offset in left), "there are gaps"
        reader = spark.read.format("headrace").options(**options)
        assert found(reader.load()) == left
        assert found(reader.option("minPartitions", "7").load()) == left, "tasks begin and end in gaps too"

        rows = spark.readStream.format("headrace").options(**options, maxOffsetsPerTrigger="4").load()
        with report_progress(spark, node.bootstrap_servers):
            query = (
                rows.writeStream.format("parquet")
                .queryName(name)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "out"))
            )
            query.awaitTermination()
        everything |= left
        assert found(spark.read.parquet(str(tmp_path / "out"))) == everything
        assert spark.read.parquet(str(tmp_path / "out")).count() == len(everything), "nothing comes twice"
        end = ALL + first_turn * len(KEYS)
        assert committed(node, f"pipeline.{name}") == {f"{topic}-0": end}
        assert lags(node, f"pipeline.{name}") == [0]
