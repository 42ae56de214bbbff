"""A million messages, thousands of partitions: each message once and in order, also after stops and crashes.

The small sizes run with every change; the large ones are for `make test-long`.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

COUNTER = Struct(">q")
MESSAGE_SIZE = 1024
PADDING = b"\xa5" * (MESSAGE_SIZE - COUNTER.size)
AT_ONCE = 10_000


class Stopwatch:
    """Prints how long each step took and what the node holds; `pytest -s` shows it."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._began_s = time.perf_counter()

    def lap(self, step: str) -> None:
        now_s = time.perf_counter()
        memory = f"{self._node.memory_mb()} MB, at most {self._node.memory_mb('VmHWM')} MB"
        print(f"{step:<40} {now_s - self._began_s:7.2f} s   node: {memory}")
        self._began_s = time.perf_counter()


class Deliveries:
    """Counts what was acknowledged and keeps what was not."""

    def __init__(self) -> None:
        self.count = 0
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.count += 1
        if error is not None:
            self.errors.append(error)


def producer_for(node: NodeProcess) -> Producer:
    return Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
        }
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [30_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_many_messages_arrive_once_and_in_order(own_node: NodeProcess, count: int) -> None:
    topic = own_node.create_topic(new_name())
    watch = Stopwatch(own_node)
    producer, deliveries = producer_for(own_node), Deliveries()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, COUNTER.pack(number) + PADDING, partition=0, on_delivery=deliveries)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert (deliveries.count, deliveries.errors) == (count, [])
    watch.lap(f"{count} messages written")

    consumer = Consumer(
        {"bootstrap.servers": own_node.bootstrap_servers, "group.id": "nobody", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    expected = 0
    is_at_end = False
    while not is_at_end:
        for message in consumer.consume(AT_ONCE, 1.0):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                is_at_end = message.offset() == count
                continue
            assert message.offset() == expected
            assert COUNTER.unpack_from(message.value())[0] == expected
            assert len(message.value()) == MESSAGE_SIZE
            expected += 1
    consumer.close()
    assert expected == count
    watch.lap(f"{count} messages read")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("partitions", [200, pytest.param(4000, marks=pytest.mark.long)])
def test_a_topic_of_many_partitions_survives_stops_and_crashes(own_node: NodeProcess, partitions: int) -> None:
    watch = Stopwatch(own_node)
    topic = own_node.create_topic(new_name(), partitions)
    watch.lap(f"{partitions} partitions created")
    described = describe(own_node, topic)
    assert sorted(described) == list(range(partitions))
    watch.lap("described")

    for written, ending in enumerate(("stop", "kill", "kill"), start=1):
        write_to_each(own_node, topic, partitions, written)
        watch.lap("one message written to each")
        getattr(own_node, ending)()
        own_node.start()
        watch.lap(f"started again after {ending}")
        assert describe(own_node, topic) == described
        assert read_all(own_node, topic, partitions, partitions * written) == {
            partition: list(range(1, written + 1)) for partition in range(partitions)
        }
        watch.lap("described and read")


def describe(node: NodeProcess, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Leader, replicas and in-sync replicas of each partition, as two different requests answer them."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    listed = {
        partition.id: (partition.leader, partition.replicas, partition.isrs)
        for partition in admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
    }
    answer = admin.describe_topics(TopicCollection([topic]), request_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
    assert listed == {
        partition.id: (
            partition.leader.id,
            [replica.id for replica in partition.replicas],
            [replica.id for replica in partition.isr],
        )
        for partition in answer.partitions
    }
    return listed


def write_to_each(node: NodeProcess, topic: str, partitions: int, number: int) -> None:
    producer, deliveries = producer_for(node), Deliveries()
    for partition in range(partitions):
        producer.produce(topic, COUNTER.pack(number), partition=partition, on_delivery=deliveries)
    assert producer.flush(PATIENCE_S) == 0
    assert (deliveries.count, deliveries.errors) == (partitions, [])


def read_all(node: NodeProcess, topic: str, partitions: int, count: int) -> dict[int, list[int]]:
    """What each partition holds, up to the end of all of them."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    received: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(AT_ONCE, 1.0):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                received[message.partition()].append(COUNTER.unpack(message.value())[0])
    consumer.close()
    assert sum(map(len, received.values())) == count
    return received
