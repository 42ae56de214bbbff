"""Rows to partitions: the one they name, that of their key, or by turns; with a live node that knows the topics."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.model.errors import Refusal
from headrace.testing import Broker
from headrace.wire.batches.records import decode_records
from headrace.wire.partitioning import partition_for_key
from headrace_spark.blocking import BlockingCluster
from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE
from headrace_spark.sink import batching
from headrace_spark.sink.batching import encoded_batches
from headrace_spark.sink.partitioner import Partitioner
from headrace_spark.sink.tasks import write_directly
from tests.clients.nodes import new_name
from tests.unit.spark.sink_inputs import committed_records, options_for

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_BYTES = 1000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def blocking(broker: Broker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap_servers) as blocking:
        yield blocking


@pytest.fixture
def topic(broker: Broker) -> str:
    name = new_name("routes")
    broker.create_topic(name, partitions=5)
    return name


def test_keys_decide_as_for_every_kafka_client(blocking: BlockingCluster, topic: str) -> None:
    keys = [f"key {number}".encode() for number in range(500)]
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())})
    found = {
        value.as_py(): target.partition
        for target, share in Partitioner(blocking, topic, BATCH_BYTES).split(batch)
        for value in share.column("value")
    }
    assert found == {key: partition_for_key(key, 5) for key in keys}


def test_a_partition_that_is_given_beats_the_key(blocking: BlockingCluster, topic: str) -> None:
    batch = pa.record_batch(
        {
            "key": pa.array(["a", "b", None, "c"]),
            "value": pa.array(["0", "1", "2", "3"]),
            "partition": pa.array([4, None, 3, 4], pa.int32()),
        }
    )
    found = [
        (target.partition, share.column("value").to_pylist())
        for target, share in Partitioner(blocking, topic, BATCH_BYTES).split(batch)
    ]
    assert sorted(found) == sorted([(4, [b"0", b"3"]), (partition_for_key(b"b", 5), [b"1"]), (3, [b"2"])])


def test_rows_keep_their_order_within_each_partition(blocking: BlockingCluster, topic: str) -> None:
    """Many of them: a sort of a few rows keeps their order by chance."""
    numbers = list(range(5000))
    partitions = [number * number % 5 for number in numbers]
    batch = pa.record_batch(
        {"value": pa.array([f"{number:04}" for number in numbers]), "partition": pa.array(partitions, pa.int32())}
    )
    found = {
        target.partition: [int(value.as_py()) for value in share.column("value")]
        for target, share in Partitioner(blocking, topic, BATCH_BYTES).split(batch)
    }
    assert found == {one: [it for it in numbers if partitions[it] == one] for one in sorted(set(partitions))}


@pytest.mark.parametrize("wrong", [5, -1])
def test_a_partition_that_is_not_there_is_told(blocking: BlockingCluster, topic: str, wrong: int) -> None:
    batch = pa.record_batch({"value": pa.array(["x"]), "partition": pa.array([wrong], pa.int32())})
    with pytest.raises(ValueError, match=f"a row names partition {wrong} of topic '{topic}'.* 0 to 4"):
        list(Partitioner(blocking, topic, BATCH_BYTES).split(batch))


def test_rows_without_a_key_take_turns_a_batch_at_a_time(blocking: BlockingCluster, topic: str) -> None:
    partitioner = Partitioner(blocking, topic, BATCH_BYTES)
    bytes_by_partition: Counter[int] = Counter()
    for _ in range(50):  # ten rounds of all partitions
        for target, share in partitioner.split(pa.record_batch({"value": pa.array([b"x" * 96] * 10, pa.binary())})):
            bytes_by_partition[target.partition] += share.num_rows
    assert set(bytes_by_partition) == set(range(5))
    assert max(bytes_by_partition.values()) - min(bytes_by_partition.values()) <= 2 * BATCH_BYTES // 100


def test_what_is_gathered_for_many_targets_goes_out_when_memory_is_short(
    broker: Broker, blocking: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "ACCUMULATED_BYTES_MAX", 1000)
    values = [f"value {number}".encode() for number in range(500)]
    batches = [
        pa.record_batch({"key": pa.array(some, pa.binary()), "value": pa.array(some, pa.binary())})
        for some in (values[:200], values[200:201], values[201:])
    ]
    partitioner = Partitioner(blocking, topic, BATCH_BYTES)
    encoded = list(encoded_batches(batches, partitioner, options_for(broker.bootstrap_servers, topic)))
    found = {
        record.value: target.partition
        for target, batch in encoded
        for record in decode_records(batch.records, inflate_max=1 << 20)
    }
    assert found == {value: partition_for_key(value, 5) for value in values}
    assert sum(batch.count for _, batch in encoded) == len(values)


def test_topics_come_from_the_column_unless_the_option_says(broker: Broker, blocking: BlockingCluster) -> None:
    names = [new_name("one"), new_name("two"), new_name("three")]
    for name in names[:2]:
        broker.create_topic(name)
    batch = pa.record_batch({"value": pa.array(["a", "b", "c"]), "topic": pa.array([names[0], names[1], names[0]])})
    found = {
        target.topic: share.column("value").to_pylist()
        for target, share in Partitioner(blocking, None, BATCH_BYTES).split(batch)
    }
    assert found == {names[0]: [b"a", b"c"], names[1]: [b"b"]}
    broker.create_topic(names[2])
    assert {target.topic for target, _ in Partitioner(blocking, names[2], BATCH_BYTES).split(batch)} == {names[2]}


def test_a_row_without_a_topic_is_told(blocking: BlockingCluster, topic: str) -> None:
    batch = pa.record_batch({"value": pa.array(["a", "b"]), "topic": pa.array([topic, None])})
    with pytest.raises(ValueError, match="a row has no topic"):
        list(Partitioner(blocking, None, BATCH_BYTES).split(batch))


def test_a_missing_topic_is_created_by_a_cluster_that_does_so(broker: Broker) -> None:
    name = new_name("made")
    write_directly([pa.record_batch({"value": pa.array(["a"])})], options_for(broker.bootstrap_servers, name))
    assert [message.value() for message in committed_records(broker.bootstrap_servers, name)] == [b"a"]


def test_a_missing_topic_is_told_where_nobody_creates_it() -> None:
    with Broker(configs={"auto.create.topics.enable": "false"}) as strict:
        options = options_for(strict.bootstrap_servers, "nowhere")
        with pytest.raises(Refusal, match="there is no topic 'nowhere', and the cluster does not create"):
            write_directly([pa.record_batch({"value": pa.array(["a"])})], options)


def test_all_columns_arrive(broker: Broker, topic: str) -> None:
    at = datetime(2001, 2, 3, 4, 5, 6, 7000, UTC)
    batch = pa.record_batch(
        {
            "key": pa.array(["k", None]),
            "value": pa.array([None, "ü"]),
            "headers": pa.array([[("a", b"1"), ("a", None)], None], HEADERS_TYPE),
            "timestamp": pa.array([at, at], TIMESTAMP_TYPE),
            "partition": pa.array([2, 2], pa.int32()),
            "colour": pa.array(["red", "green"]),
        }
    )
    write_directly([batch], options_for(broker.bootstrap_servers, topic, **{"kafka.compression.type": "lz4"}))
    first, second = committed_records(broker.bootstrap_servers, topic)
    assert (first.key(), first.value(), first.headers()) == (b"k", None, [("a", b"1"), ("a", None)])
    assert (second.key(), second.value(), second.headers()) == (None, "ü".encode(), None)
    assert first.timestamp()[1] == second.timestamp()[1] == int(at.timestamp() * 1000)
    assert first.partition() == second.partition() == 2
