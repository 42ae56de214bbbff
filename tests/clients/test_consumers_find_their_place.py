"""Consumers go where they are told: beginnings, ends, offsets, times, and what to do when a place is gone."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.four_clients import CLIENTS, PYTHON_CLIENTS, Confluent, Message, client_name, run_kcat
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.four_clients import Client
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

START_MS = 1_700_000_000_000
PATIENCE_MS = int(PATIENCE_S * 1000)


@pytest.fixture
def ten(node: NodeProcess, topic: str) -> str:
    """A topic with the values 0 to 9, a second apart, in compressed batches."""
    messages = [Message(b"%d" % number, timestamp_ms=START_MS + 1000 * number) for number in range(10)]
    Confluent().write(node.bootstrap_servers, topic, messages, codec="lz4")
    return topic


@pytest.fixture
def confluent(node: NodeProcess) -> Iterator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody", "enable.partition.eof": True}
    )
    yield consumer
    consumer.close()


@pytest.fixture
def kafka_python(node: NodeProcess) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest")
    yield consumer
    consumer.close()


def next_value(consumer: Consumer) -> Any:
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None, message.error()
    return message.value()


# ---- confluent-kafka


def test_confluent_seeks(confluent: Consumer, ten: str) -> None:
    confluent.assign([TopicPartition(ten, 0, OFFSET_BEGINNING)])
    assert next_value(confluent) == b"0"
    confluent.seek(TopicPartition(ten, 0, 7))
    assert next_value(confluent) == b"7"
    confluent.seek(TopicPartition(ten, 0, 3))
    assert [next_value(confluent) for _ in range(3)] == [b"3", b"4", b"5"]


def test_confluent_starts_at_the_end(node: NodeProcess, confluent: Consumer, ten: str) -> None:
    confluent.assign([TopicPartition(ten, 0, OFFSET_END)])
    arrived = confluent.poll(PATIENCE_S)
    assert arrived is not None
    assert (arrived.error().code(), arrived.offset()) == (KafkaError._PARTITION_EOF, 10)
    Confluent().write(node.bootstrap_servers, ten, [Message(b"new")])
    assert next_value(confluent) == b"new"


def test_confluent_asks_for_watermarks_and_times(confluent: Consumer, ten: str) -> None:
    assert confluent.get_watermark_offsets(TopicPartition(ten, 0)) == (0, 10)
    times = {START_MS - 5: 0, START_MS + 4000: 4, START_MS + 4001: 5, START_MS + 9001: OFFSET_END}
    for time, offset in times.items():
        (found,) = confluent.offsets_for_times([TopicPartition(ten, 0, time)], timeout=PATIENCE_S)
        assert found.offset == offset


def test_confluent_admin_lists_offsets(node: NodeProcess, ten: str) -> None:
    # The newest time is not at the end.
    Confluent().write(node.bootstrap_servers, ten, [Message(b"late", timestamp_ms=START_MS)])
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    found = {}
    for name, spec in {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "max timestamp": OffsetSpec.max_timestamp(),
        "time": OffsetSpec.for_timestamp(START_MS + 2500),
    }.items():
        answer = admin.list_offsets({TopicPartition(ten, 0): spec})[TopicPartition(ten, 0)].result(PATIENCE_S)
        found[name] = (answer.offset, answer.timestamp)
    assert found == {
        "earliest": (0, -1),
        "latest": (11, -1),
        "max timestamp": (9, START_MS + 9000),
        "time": (3, START_MS + 3000),
    }


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"2"), ("latest", b"new"), ("error", None)])
def test_confluent_resets_when_its_offset_is_gone(node: NodeProcess, ten: str, reset: str, first: bytes | None) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.delete_records([TopicPartition(ten, 0, 2)])[TopicPartition(ten, 0)].result(PATIENCE_S)
    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody", "auto.offset.reset": reset}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(ten, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    if reset == "latest":
        assert message.error().code() == KafkaError._PARTITION_EOF
        Confluent().write(node.bootstrap_servers, ten, [Message(b"new")])
        message = consumer.poll(PATIENCE_S)
    if first is None:
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    else:
        assert message.value() == first
    consumer.close()


# ---- kafka-python


def test_kafka_python_seeks(kafka_python: KafkaConsumer, ten: str) -> None:
    place = KafkaPythonPartition(ten, 0)
    kafka_python.assign([place])
    kafka_python.seek_to_beginning(place)
    assert next(kafka_python).value == b"0"
    kafka_python.seek(place, 7)
    assert next(kafka_python).value == b"7"
    kafka_python.seek_to_end(place)
    assert kafka_python.position(place) == 10
    kafka_python.seek_to_beginning(place)
    assert kafka_python.position(place) == 0


def test_kafka_python_asks_for_offsets_and_times(kafka_python: KafkaConsumer, ten: str) -> None:
    place = KafkaPythonPartition(ten, 0)
    assert kafka_python.beginning_offsets([place]) == {place: 0}
    assert kafka_python.end_offsets([place]) == {place: 10}
    found = kafka_python.offsets_for_times({place: START_MS + 4001})[place]
    assert (found.offset, found.timestamp) == (5, START_MS + 5000)
    assert kafka_python.offsets_for_times({place: START_MS + 9001}) == {place: None}


def test_kafka_python_resets_when_its_offset_is_gone(node: NodeProcess, kafka_python: KafkaConsumer, ten: str) -> None:
    place = KafkaPythonPartition(ten, 0)
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    admin.delete_records({place: 4})
    admin.close()
    kafka_python.assign([place])
    kafka_python.seek(place, 1)
    assert next(kafka_python).value == b"4"
    kafka_python.seek(place, 1000)
    assert next(kafka_python).value == b"4"


# ---- aiokafka


async def test_aiokafka_seeks_and_asks(node: NodeProcess, ten: str) -> None:
    place = AiokafkaPartition(ten, 0)
    async with AIOKafkaConsumer(bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        assert (await consumer.getone()).value == b"0"
        consumer.seek(place, 7)
        assert (await consumer.getone()).value == b"7"
        await consumer.seek_to_end(place)
        assert await consumer.position(place) == 10
        await consumer.seek_to_beginning(place)
        assert (await consumer.getone()).value == b"0"
        assert await consumer.beginning_offsets([place]) == {place: 0}
        assert await consumer.end_offsets([place]) == {place: 10}
        found = (await consumer.offsets_for_times({place: START_MS + 4001}))[place]
        assert (found.offset, found.timestamp) == (5, START_MS + 5000)
        assert await consumer.offsets_for_times({place: START_MS + 9001}) == {place: None}
        consumer.seek(place, 1000)
        assert (await consumer.getone()).value == b"0"


async def test_aiokafka_is_told_soon_what_another_task_sends(node: NodeProcess, topic: str) -> None:
    """The consumer is willing to wait for a minute each time; a thousand turns would last for ever if it had to."""
    place = AiokafkaPartition(topic, 0)
    async with (
        AIOKafkaConsumer(bootstrap_servers=node.bootstrap_servers, fetch_max_wait_ms=PATIENCE_MS) as consumer,
        AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers) as producer,
    ):
        consumer.assign([place])
        consumer.seek(place, 0)
        for number in range(100):
            arriving = asyncio.ensure_future(consumer.getone())
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            assert (await asyncio.wait_for(arriving, PATIENCE_S)).value == b"%d" % number


# ---- every client


@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
def test_every_client_starts_in_the_middle_of_a_batch(node: NodeProcess, ten: str, client: Client) -> None:
    batches = node.stored_batches(ten)
    assert batches[0].record_count > 1
    seen = client.read(node.bootstrap_servers, ten, from_offset=batches[0].last_offset)
    assert seen[0].offset == batches[0].last_offset
    assert [one.message.value for one in seen] == [b"%d" % number for number in range(seen[0].offset, 10)]


def test_kcat_reads_the_last_and_by_time(node: NodeProcess, ten: str) -> None:
    common = ("-C", "-q", "-e", "-b", node.bootstrap_servers, "-t", ten, "-p", "0")
    assert run_kcat(*common, "-o", "-3") == b"7\n8\n9\n"
    assert run_kcat(*common, "-o", f"s@{START_MS + 5500}") == b"6\n7\n8\n9\n"
    assert run_kcat(*common, "-o", f"s@{START_MS + 1000}", "-o", f"e@{START_MS + 3000}") == b"1\n2\n"
    query = run_kcat("-Q", "-b", node.bootstrap_servers, "-t", f"{ten}:0:{START_MS + 4001}")
    assert query.decode().split()[-1] == "5"


@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=client_name)
def test_what_is_deleted_is_gone_and_what_comes_after_is_not(node: NodeProcess, ten: str, client: Client) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.delete_records([TopicPartition(ten, 0, 6)])[TopicPartition(ten, 0)].result(PATIENCE_S)
    assert [one.offset for one in client.read(node.bootstrap_servers, ten, from_offset=6)] == [6, 7, 8, 9]

    answer = admin.delete_records([TopicPartition(ten, 0, OFFSET_END)])[TopicPartition(ten, 0)].result(PATIENCE_S)
    assert answer.low_watermark == 10
    assert client.write(node.bootstrap_servers, ten, [Message(b"after")]) == [10]
    assert [one.offset for one in client.read(node.bootstrap_servers, ten, from_offset=10)] == [10]


def test_the_start_of_a_log_survives_a_crash(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    client = Confluent()
    client.write(own_node.bootstrap_servers, topic, [Message(b"%d" % number) for number in range(10)])
    admin = AdminClient({"bootstrap.servers": own_node.bootstrap_servers})
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0)].result(PATIENCE_S)
    own_node.kill()
    own_node.start()
    consumer = KafkaConsumer(bootstrap_servers=own_node.bootstrap_servers)
    place = KafkaPythonPartition(topic, 0)
    assert (consumer.beginning_offsets([place]), consumer.end_offsets([place])) == ({place: 6}, {place: 10})
    consumer.close()


@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=client_name)
def test_a_batch_larger_than_what_the_consumer_asks_for_still_comes(
    node: NodeProcess, topic: str, client: Client
) -> None:
    sizes = [200_000, 10, 300_000, 20]
    Confluent().write(node.bootstrap_servers, topic, [Message(b"x" * size) for size in sizes], codec="none")
    small = 1000
    if client.name == "aiokafka":
        received = asyncio.run(_read_small_with_aiokafka(node, topic, len(sizes), small))
    elif client.name == "kafka-python":
        consumer = KafkaConsumer(
            bootstrap_servers=node.bootstrap_servers, max_partition_fetch_bytes=small, fetch_max_bytes=small
        )
        consumer.assign([KafkaPythonPartition(topic, 0)])
        consumer.seek(KafkaPythonPartition(topic, 0), 0)
        received = [len(next(consumer).value) for _ in sizes]
        consumer.close()
    else:
        settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"}
        limits = {"max.partition.fetch.bytes": small, "fetch.max.bytes": small, "message.max.bytes": small}
        confluent = Consumer({**settings, **limits})
        confluent.assign([TopicPartition(topic, 0, 0)])
        received = [len(next_value(confluent)) for _ in sizes]
        confluent.close()
    assert received == sizes


async def _read_small_with_aiokafka(node: NodeProcess, topic: str, count: int, small: int) -> list[int]:
    async with AIOKafkaConsumer(
        bootstrap_servers=node.bootstrap_servers, max_partition_fetch_bytes=small, fetch_max_bytes=small
    ) as consumer:
        consumer.assign([AiokafkaPartition(topic, 0)])
        consumer.seek(AiokafkaPartition(topic, 0), 0)
        return [len((await consumer.getone()).value) for _ in range(count)]


def test_a_consumer_follows_a_topic_that_is_made_again(node: NodeProcess, ten: str) -> None:
    settings = {
        "bootstrap.servers": node.bootstrap_servers,
        "group.id": "nobody",
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 100,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(ten, 0, 0)])
    assert [next_value(consumer) for _ in range(10)] == [b"%d" % number for number in range(10)]

    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.delete_topics([ten], operation_timeout=PATIENCE_S)[ten].result(PATIENCE_S)
    node.create_topic(ten)
    Confluent().write(node.bootstrap_servers, ten, [Message(b"second life")])

    received = None
    while received is None or received.error() is not None:
        received = consumer.poll(PATIENCE_S)
        assert received is not None
    assert (received.offset(), received.value()) == (0, b"second life")
    consumer.close()


def test_many_partitions_are_consumed_at_once(node: NodeProcess) -> None:
    """Enough partitions for several answers, with one slow producer that keeps them moving."""
    topic = node.create_topic(new_name(), partitions=50)
    count = 5000

    def produce() -> None:
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 1})
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % 50)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    producing = threading.Thread(target=produce)
    producing.start()
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(50)])
    received: dict[int, list[int]] = {partition: [] for partition in range(50)}
    for _ in range(count):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        received[message.partition()].append(int(message.value()))
    producing.join()
    consumer.close()
    assert received == {partition: list(range(partition, count, 50)) for partition in range(50)}


def test_who_asks_for_the_end_finds_what_was_acked_a_moment_ago(node: NodeProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": 1, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"})
    try:
        for number in range(1, 21):
            producer.produce(topic, b"x", partition=0)
            assert producer.flush(PATIENCE_S) == 0
            assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S) == (0, number)
    finally:
        consumer.close()
