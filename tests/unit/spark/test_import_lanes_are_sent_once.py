"""One lane of an import against a live node, without Spark: answers vanish, tasks come twice, the node dies."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.client.connections.cluster import system_cluster
from headrace.client.errors import ProducerFenced
from headrace.model.names import TopicPartition
from headrace.testing import Broker
from headrace.wire.batches.header import Codec
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.produce import ProduceRequest
from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from headrace_spark.codec.encoder import encode
from headrace_spark.offline.imports.columns import ColumnNames
from headrace_spark.offline.imports.lane_publisher import LanePublisher
from headrace_spark.offline.imports.plan import find_input
from headrace_spark.offline.imports.rate_limit import Rate
from headrace_spark.offline.imports.task import ImportTask
from headrace_spark.offline.storage import Storage
from tests.clients.nodes import NodeProcess
from tests.unit.spark.faulty_line import Fate, FaultyNetwork
from tests.unit.spark.sink_inputs import committed_values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace_spark.offline.imports.lane_publisher import TargetedBatch


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    broker.create_topic(name, partitions=2)
    return name


def batches_of(topic: str, *values: str) -> list[TargetedBatch]:
    """Each value to a partition of its own."""
    return [
        (TopicPartition(topic, index % 2), batch)
        for index, value in enumerate(values)
        for batch in encode(
            pa.record_batch({"value": [value.encode()]}), codec=Codec.NONE, batch_bytes_max=9999, now_ms=0
        )
    ]


async def seen(broker: Broker, topic: str) -> list[bytes]:
    return sorted(await asyncio.to_thread(committed_values, broker.bootstrap_servers, topic))


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER], ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize(
    "request_type",
    [InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest],
    ids=lambda each: each.__name__,
)
async def test_whatever_gets_lost_nothing_is_lost_or_doubled(
    broker: Broker, topic: str, request_type: type[ProduceRequest], fate: Fate
) -> None:
    network = FaultyNetwork()
    network.fates[request_type.API_KEY] = [fate, Fate.PASS, fate, fate]
    async with network.cluster(broker.bootstrap_servers, retry_for_s=20) as cluster:
        publisher = LanePublisher(cluster, f"lane-{topic}", topic)
        assert await publisher.take_over() == 0
        for position in range(4):
            await publisher.publish(batches_of(topic, f"{position}a", f"{position}b"), position + 1)
        await publisher.close()

    assert network.fates[request_type.API_KEY] == [] or request_type is InitProducerIdRequest
    assert await seen(broker, topic) == sorted(f"{position}{half}".encode() for position in range(4) for half in "ab")


async def test_a_second_task_goes_on_and_the_first_is_locked_out(broker: Broker, topic: str) -> None:
    async with system_cluster(broker.bootstrap_servers) as one, system_cluster(broker.bootstrap_servers) as other:
        first, second = (LanePublisher(cluster, f"lane-{topic}", topic) for cluster in (one, other))
        await first.take_over()
        await first.publish(batches_of(topic, "1"), 10)

        assert await second.take_over() == 10
        with pytest.raises(ProducerFenced):
            await first.publish(batches_of(topic, "not this"), 20)
        await second.publish(batches_of(topic, "2"), 20)
        await first.close()
        await second.close()

    assert await seen(broker, topic) == [b"1", b"2"]


async def test_lanes_do_not_know_each_other(broker: Broker, topic: str) -> None:
    async with system_cluster(broker.bootstrap_servers) as cluster:
        publishers = [LanePublisher(cluster, f"lane-{topic}-{index}", topic) for index in range(3)]
        for index, publisher in enumerate(publishers):
            await publisher.take_over()
            await publisher.publish(batches_of(topic, f"{index}"), index + 1)
        again = [LanePublisher(cluster, f"lane-{topic}-{index}", topic) for index in range(3)]
        positions = [await publisher.take_over() for publisher in again]
        for publisher in (*publishers, *again):
            await publisher.close()

    assert positions == [1, 2, 3]


def test_a_node_is_killed_while_a_lane_is_sent(tmp_path: Path) -> None:
    count = 12_000
    (tmp_path / "in").mkdir()
    table = pa.table({"key": [f"{n % 7}" for n in range(count)], "value": [f"{n:01000d}" for n in range(count)]})
    pq.write_table(table, tmp_path / "in" / "0.parquet", row_group_size=1000)
    storage = Storage.at(str(tmp_path / "in"))
    (lane,) = find_input(storage, ColumnNames(), None).lanes
    node = NodeProcess(tmp_path / "node").start()
    try:
        node.create_topic("target", 2)
        task = ImportTask(
            node.bootstrap_servers, storage, "target", "test", ColumnNames(), Codec.NONE, 100_000, Rate(rows_per_s=8000)
        )

        def crash() -> None:
            time.sleep(0.5)
            node.kill()
            node.start()

        crashing = threading.Thread(target=crash)
        crashing.start()
        sent = task(lane)
        crashing.join()
        assert sent.rows_sent == count
        assert task(lane).rows_sent == 0
        values = committed_values(node.bootstrap_servers, "target")
        assert sorted(values) == [f"{n:01000d}".encode() for n in range(count)]
    finally:
        node.stop()
