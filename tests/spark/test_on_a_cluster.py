"""Source and sink on a Spark cluster: a driver, two workers and their executors, each a JVM of its own.

Executors share nothing with the driver but what Spark ships to them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from confluent_kafka import Producer

from tests.clients.clusters import wait_until
from tests.clients.nodes import PATIENCE_S, new_name
from tests.spark import either_format
from tests.spark.spark_process import SparkProcess
from tests.spark.topic_contents import everything_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.clients.node_fixtures"]

MASTER = "local-cluster[2,1,1024]"  # two workers with a core and a gigabyte each
PARTITIONS = 4
RECORDS = 4_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkProcess]:
    with SparkProcess(master=MASTER, conf={"spark.executor.memory": "512m"}) as process:
        application = process.run(either_format.application_id)
        yield process
    # Where such a cluster's executors worked; Spark leaves it behind.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


@pytest.fixture(scope="module")
def topic(node: NodeProcess) -> str:
    name = node.create_topic(new_name("spread"), partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "compression.type": "zstd"})
    for number in range(RECORDS):
        producer.produce(name, key=f"{number % 100}", value=f"{number}", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return name


def test_it_is_a_cluster(cluster: SparkProcess) -> None:
    wait_until(lambda: cluster.run(either_format.executor_count) == 2, "both executors have reported for work")


def test_a_topic_is_read(cluster: SparkProcess, node: NodeProcess, topic: str) -> None:
    options = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": topic}
    rows = cluster.run(either_format.read, "headrace", options)
    assert sorted(int(row[1]) for row in rows) == list(range(RECORDS))


def test_a_batch_is_written(cluster: SparkProcess, node: NodeProcess, topic: str) -> None:
    target = node.create_topic(new_name("batch"), partitions=PARTITIONS)
    rows = [(f"{number}",) for number in range(1_000)]
    options = {"kafka.bootstrap.servers": node.bootstrap_servers, "topic": target}
    cluster.run(either_format.write, "headrace", rows, "value string", options)
    assert Counter(each.value for each in everything_in(node, target)) == Counter(value.encode() for (value,) in rows)


def test_a_stream_is_copied_once_over_a_restart(
    cluster: SparkProcess, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    target = node.create_topic(new_name("copy"), partitions=PARTITIONS)
    servers = {"kafka.bootstrap.servers": node.bootstrap_servers}
    source = {**servers, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1500"}
    for _ in range(2):
        cluster.run(
            either_format.copy_available,
            ("headrace", source),
            ("headrace", {**servers, "topic": target}),
            str(tmp_path / "checkpoint"),
        )
    assert sorted(int(each.value or b"") for each in everything_in(node, target)) == list(range(RECORDS))
