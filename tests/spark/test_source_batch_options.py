"""What a batch query reads: every option, against a real node."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from headrace.client.errors import ClusterUnreachable
from headrace.model.names import TopicPartition
from headrace_spark.data_source import HeadraceDataSource
from headrace_spark.source.data_loss import DataLoss
from tests.spark.source_topics import (
    add_partitions,
    delete_records,
    new_topic,
    numbered,
    produce,
    rows_of,
    source,
    tasks_of,
    values_of,
)

if TYPE_CHECKING:
    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def orders(broker: Broker) -> str:
    """Two partitions: ten records at 1000, 1001, … ms, and five at 2000, 2001, … ms."""
    topic = new_topic(broker, 2, "orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for index in range(10):
        producer.produce(topic, f"a{index}", partition=0, timestamp=1000 + index)
    for index in range(5):
        producer.produce(topic, f"b{index}", partition=1, timestamp=2000 + index)
    assert producer.flush(30) == 0
    return topic


def offsets(topic: str, zero: int, one: int) -> str:
    return json.dumps({topic: {"0": zero, "1": one}})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_column_of_every_codec(broker: Broker, codec: str) -> None:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
    producer.produce(topic, b"value" * 50, b"key", timestamp=1234, headers=[("h", b"1"), ("h", None)])
    producer.produce(topic, None, None, timestamp=1235)
    producer.produce(topic, b"", b"", timestamp=1236)
    assert producer.flush(30) == 0
    rows = rows_of(source(broker, subscribe=topic, includeHeaders="true"))
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [
        (b"key", b"value" * 50, 0),
        (None, None, 1),
        (b"", b"", 2),
    ]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == [1234, 1235, 1236]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(topic, 0, 0)}
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert not rows[1]["headers"]


def test_times_that_the_broker_gave(broker: Broker) -> None:
    topic = new_topic(broker, message_timestamp_type="LogAppendTime")
    before_s = time.time() - 1
    produce(broker, topic, ["x"])
    (row,) = rows_of(source(broker, subscribe=topic))
    assert row["timestampType"] == 1
    assert before_s < row["timestamp"].timestamp() < time.time() + 1


def test_only_the_columns_that_are_asked_for(broker: Broker, orders: str) -> None:
    rows = rows_of(source(broker, subscribe=orders, columns="offset,value"))
    assert len(rows) == 15
    assert list(rows[0]) == ["offset", "value"]
    assert rows_of(source(broker, subscribe=orders, columns="partition"))[-1] == {"partition": 1}


def test_topics_by_name_by_pattern_and_by_partition(broker: Broker, orders: str) -> None:
    other = new_topic(broker, prefix="clicks")
    produce(broker, other, ["c0"])
    everything = [f"a{index}" for index in range(10)] + [f"b{index}" for index in range(5)]
    assert sorted(values_of(source(broker, subscribe=f"{orders}, {other}"))) == sorted([*everything, "c0"])
    assert values_of(source(broker, subscribePattern=f"{orders[:-2]}..")) == everything
    assert values_of(source(broker, subscribePattern=orders[:-2])) == [], "a pattern matches whole names"
    assert values_of(source(broker, assign=json.dumps({orders: [1]}))) == everything[10:]


def test_a_pattern_leaves_internal_topics_alone(broker: Broker, orders: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "makes the internal topic"})
    consumer.commit(offsets=[ConfluentPartition(orders, 0, 1)], asynchronous=False)
    assert any(name.startswith("__") for name in consumer.list_topics(timeout=30).topics)
    consumer.close()
    found = {row["topic"] for row in rows_of(source(broker, subscribePattern=".*", columns="topic"))}
    assert orders in found
    assert not any(name.startswith("__") for name in found)


@pytest.mark.parametrize(
    ("start", "end", "a", "b"),
    [((3, -2), (5, -1), range(3, 5), range(5)), ((0, 4), (0, 4), range(0), range(0)), ((9, 1), (10, 2), [9], [1])],
)
def test_offsets_for_each_partition(
    broker: Broker, orders: str, start: tuple[int, int], end: tuple[int, int], a: list[int], b: list[int]
) -> None:
    found = values_of(
        source(broker, subscribe=orders, startingOffsets=offsets(orders, *start), endingOffsets=offsets(orders, *end))
    )
    assert found == [f"a{index}" for index in a] + [f"b{index}" for index in b]


def test_times_for_all_partitions_or_each(broker: Broker, orders: str) -> None:
    assert values_of(source(broker, subscribe=orders, startingTimestamp="1008", endingTimestamp="2001")) == [
        *("a8", "a9"),  # no record is as late as the end: up to the latest
        "b0",
    ]
    by_partition = source(
        broker,
        subscribe=orders,
        startingOffsetsByTimestamp=offsets(orders, 1003, 2003),
        endingOffsetsByTimestamp=offsets(orders, 1005, 9999),
    )
    assert values_of(by_partition) == ["a3", "a4", "b3", "b4"]


def test_a_start_after_the_last_record(broker: Broker, orders: str) -> None:
    with pytest.raises(ValueError, match="partition 0, has no record at or after the starting timestamp 2003"):
        rows_of(source(broker, subscribe=orders, startingTimestamp="2003"))
    lenient = source(broker, subscribe=orders, startingTimestamp="2003", startingOffsetsByTimestampStrategy="latest")
    assert values_of(lenient) == ["b3", "b4"]


def test_tasks_are_cut_without_gap_or_overlap(broker: Broker, orders: str) -> None:
    assert [len(task) for task in tasks_of(source(broker, subscribe=orders))] == [10, 5]
    tasks = tasks_of(source(broker, subscribe=orders, minPartitions="6"))
    assert len(tasks) == 6
    assert sorted(row["value"] for task in tasks for row in task) == sorted(
        row["value"] for row in rows_of(source(broker, subscribe=orders))
    )
    assert [len(task) for task in tasks_of(source(broker, subscribe=orders, maxRecordsPerPartition="4"))] == [
        3,
        3,
        4,
        2,
        3,
    ]


def test_an_empty_topic(broker: Broker) -> None:
    assert tasks_of(source(broker, subscribe=new_topic(broker, 3))) == []


def test_long_ranges_come_in_many_answers(broker: Broker) -> None:
    topic = new_topic(broker)
    values = [f"{number:06}" * 20 for number in range(5000)]
    produce(broker, topic, values, **{"batch.size": 4000})
    tight = source(broker, subscribe=topic, kafka__max__partition__fetch__bytes="10000")
    assert values_of(tight) == values


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere' at .*; create it, or correct the option 'subscribe'"),
        ({"subscribe": "TOPIC,nowhere"}, "there is no topic 'nowhere'"),
        ({"assign": '{"TOPIC":[7]}'}, "no partition 7 of topic '.*; create it, or correct the option 'assign'"),
        ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC":{"0":1}}'}, "all partitions .*-1 is missing .*-1 stands"),
        ({"subscribe": "TOPIC", "endingOffsets": '{"TOPIC":{"0":1,"1":1,"9":1}}'}, "names .*-9, which does not exist"),
        (
            {"subscribe": "TOPIC", "startingOffsetsByTimestamp": '{"TOPIC":{"0":1}}'},
            "'startingOffsetsByTimestamp' must name all partitions",
        ),
    ],
)
def test_what_the_cluster_does_not_have_is_told(
    broker: Broker, orders: str, options: dict[str, str], says: str
) -> None:
    options = {name: value.replace("TOPIC", orders) for name, value in options.items()}
    with pytest.raises(ValueError, match=says):
        rows_of(source(broker, **options))


def test_a_wrong_address_is_told_at_once() -> None:
    unreachable = HeadraceDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"})
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        rows_of(unreachable)


def test_records_that_expired(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(10))
    delete_records(broker, {TopicPartition(topic, 0): 4})
    assert values_of(source(broker, subscribe=topic)) == numbered(6, 4), "the earliest is the earliest that is there"
    wanted: dict[str, Any] = {
        "startingOffsets": f'{{"{topic}":{{"0":2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":12}}}}',
    }
    says = f"topic '{topic}', partition 0: offsets 2 to 11 are wanted, but it holds offsets 4 to 9 .*'failOnDataLoss'"
    with pytest.raises(DataLoss, match=says):
        values_of(source(broker, subscribe=topic, **wanted))
    assert values_of(source(broker, subscribe=topic, failOnDataLoss="false", **wanted)) == numbered(6, 4)
    assert "offsets 2 to 11 are wanted" in caplog.text


def test_records_that_expire_between_plan_and_task(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(10))
    strict, lenient = (source(broker, subscribe=topic, failOnDataLoss=word) for word in ("true", "false"))
    plans = [data_source.reader(data_source.schema()) for data_source in (strict, lenient)]
    partitions = [reader.partitions()[0] for reader in plans]
    delete_records(broker, {TopicPartition(topic, 0): 7})
    with pytest.raises(DataLoss, match="offsets 0 to 9 are wanted, but it holds offsets 7 to 9"):
        list(plans[0].read(partitions[0]))
    assert sum(len(batch) for batch in plans[1].read(partitions[1])) == 3


def test_a_topic_that_is_made_again_between_plan_and_task(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, numbered(10))
    data_source = source(broker, subscribe=topic, failOnDataLoss="false", startingOffsets=f'{{"{topic}":{{"0":5}}}}')
    reader = data_source.reader(data_source.schema())
    (partition,) = reader.partitions()
    broker.delete_topic(topic)
    broker.create_topic(topic)
    produce(broker, topic, numbered(2))
    assert list(reader.read(partition)) == []


def test_partitions_that_were_added_are_seen(broker: Broker) -> None:
    topic = new_topic(broker)
    data_source = source(broker, subscribe=topic)
    assert values_of(data_source) == []
    add_partitions(broker, topic, 3)
    produce(broker, topic, ["new"], partition=2)
    assert values_of(data_source) == ["new"]
