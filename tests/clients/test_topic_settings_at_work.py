"""Settings of a topic, seen from clients: sizes, codecs, timestamps, segments, idempotent producers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError as AiokafkaTooLarge
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import MessageSizeTooLargeError

from headrace.wire.batches.header import Codec
from tests.clients.four_clients import CLIENTS, CODECS, PYTHON_CLIENTS, Confluent, Message, client_name, run_kcat
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.four_clients import Client
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

LONG_AGO_MS = 1_600_000_000_000
MAX_MESSAGE_BYTES = 1_048_588  # Kafka's default for a batch
TEXT = b"said again and again " * 50


# ---- size


def delivery_error(node: NodeProcess, topic: str, value: bytes, **settings: Any) -> KafkaError | None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return outcomes[0]


def test_a_message_may_be_as_large_as_the_topic_allows(node: NodeProcess, topic: str) -> None:
    overhead = 90  # of a batch with one record, at most
    largest = b"x" * (MAX_MESSAGE_BYTES - overhead)
    assert delivery_error(node, topic, largest, **{"message.max.bytes": 5_000_000}) is None
    for client in CLIENTS:
        (seen,) = client.read(node.bootstrap_servers, topic)
        assert seen.message.value == largest


def test_a_message_that_is_too_large_is_refused_by_the_node(node: NodeProcess, topic: str) -> None:
    too_large = b"x" * MAX_MESSAGE_BYTES
    error = delivery_error(node, topic, too_large, **{"message.max.bytes": 5_000_000})
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE

    producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers, max_request_size=5_000_000)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, too_large).get(PATIENCE_S)
    producer.close()

    async def send_with_aiokafka() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=node.bootstrap_servers, max_request_size=5_000_000, max_batch_size=5_000_000
        ) as producer:
            await producer.send_and_wait(topic, too_large)

    with pytest.raises(AiokafkaTooLarge):
        asyncio.run(send_with_aiokafka())

    assert Confluent().write(node.bootstrap_servers, topic, [Message(b"small")]) == [0]


def test_it_is_the_compressed_size_that_counts(node: NodeProcess, topic: str) -> None:
    assert delivery_error(node, topic, b"x" * 4_000_000, **{"message.max.bytes": 5_000_000}) is not None
    settings = {"message.max.bytes": 5_000_000, "compression.type": "zstd"}
    assert delivery_error(node, topic, b"x" * 4_000_000, **settings) is None


def test_the_limit_of_a_topic_is_its_own_and_can_change(node: NodeProcess) -> None:
    topic = node.create_topic(new_name(), configs={"max.message.bytes": "1000"})
    error = delivery_error(node, topic, b"x" * 2000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    alter(node, topic, "max.message.bytes", "3000")
    assert delivery_error(node, topic, b"x" * 2000) is None


def alter(node: NodeProcess, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def test_a_message_of_several_megabytes(node: NodeProcess) -> None:
    topic = node.create_topic(new_name(), configs={"max.message.bytes": "20000000"})
    value = bytes(range(256)) * 60_000
    assert delivery_error(node, topic, value, **{"message.max.bytes": 20_000_000}) is None
    for client in PYTHON_CLIENTS:
        (seen,) = client.read(node.bootstrap_servers, topic)
        assert seen.message.value == value, client.name


# ---- codec


@pytest.mark.parametrize("sent_as", CODECS)
@pytest.mark.parametrize("stored_as", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_can_have_a_codec_of_its_own(node: NodeProcess, stored_as: str, sent_as: str) -> None:
    topic = node.create_topic(new_name(), configs={"compression.type": stored_as})
    messages = [Message(b"%d " % number + TEXT, b"key", (("a", b"b"),), LONG_AGO_MS + number) for number in range(50)]

    assert Confluent().write(node.bootstrap_servers, topic, messages, codec=sent_as) == list(range(50))

    expected = Codec.NONE if stored_as == "uncompressed" else Codec[stored_as.upper()]
    assert {batch.codec for batch in node.stored_batches(topic)} == {expected}
    for client in CLIENTS:
        if stored_as in {"uncompressed", *client.codecs}:
            assert [one.message for one in client.read(node.bootstrap_servers, topic)] == messages, client.name


# ---- time


@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=client_name)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_topic_can_tell_the_time_of_append(node: NodeProcess, client: Client, codec: str) -> None:
    topic = node.create_topic(new_name(), configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    messages = [Message(TEXT, timestamp_ms=LONG_AGO_MS) for _ in range(20)]
    assert client.write(node.bootstrap_servers, topic, messages, codec=codec) == list(range(20))
    after_ms = int(time.time() * 1000)

    for reader in CLIENTS:
        times = [one.message.timestamp_ms for one in reader.read(node.bootstrap_servers, topic)]
        assert len(times) == 20
        assert all(before_ms <= time_ms <= after_ms for time_ms in times if time_ms is not None), reader.name
        assert times == sorted(times, key=lambda time_ms: time_ms or 0)

    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    consumer.close()


def test_the_producer_learns_the_time_of_append(node: NodeProcess) -> None:
    topic = node.create_topic(new_name(), configs={"message.timestamp.type": "LogAppendTime"})
    producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers)
    answered = producer.send(topic, b"value", timestamp_ms=LONG_AGO_MS).get(PATIENCE_S)
    producer.close()
    (seen,) = Confluent().read(node.bootstrap_servers, topic)
    assert answered.timestamp == seen.message.timestamp_ms != LONG_AGO_MS


# ---- segments


def test_a_log_of_many_segments_reads_as_one(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name(), configs={"segment.bytes": "1048576"})
    messages = [Message(b"%d " % number + b"x" * 5000, timestamp_ms=LONG_AGO_MS + number) for number in range(2000)]
    Confluent().write(own_node.bootstrap_servers, topic, messages)
    assert len(list(own_node.data_dir.glob("topics/*-0/*.log"))) >= 9

    for client in CLIENTS:
        seen = client.read(own_node.bootstrap_servers, topic)
        assert [one.message.value for one in seen] == [message.value for message in messages], client.name
    consumer = KafkaConsumer(bootstrap_servers=own_node.bootstrap_servers)
    place = KafkaPythonPartition(topic, 0)
    for number in range(0, 2000, 99):
        assert consumer.offsets_for_times({place: LONG_AGO_MS + number})[place].offset == number
    consumer.close()


def test_what_is_older_than_the_retention_goes(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    node = start_node({"log.retention.check.interval.ms": "100"})
    topic = node.create_topic(new_name(), configs={"retention.ms": "3600000"})
    Confluent().write(node.bootstrap_servers, topic, [Message(b"old", timestamp_ms=LONG_AGO_MS)] * 5)

    consumer = KafkaConsumer(bootstrap_servers=node.bootstrap_servers)
    place = KafkaPythonPartition(topic, 0)
    deadline = time.monotonic() + PATIENCE_S
    while consumer.beginning_offsets([place])[place] != 5:
        assert time.monotonic() < deadline
    consumer.close()
    assert Confluent().write(node.bootstrap_servers, topic, [Message(b"new")]) == [5]
    assert [seen.message.value for seen in Confluent().read(node.bootstrap_servers, topic, 5)] == [b"new"]


# ---- idempotence


def test_idempotent_producers_of_every_library(node: NodeProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1})
    for number in range(3000):
        producer.produce(topic, b"confluent %d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0

    kafka_python = KafkaProducer(bootstrap_servers=node.bootstrap_servers)
    for number in range(1000):
        kafka_python.send(topic, b"kafka-python %d" % number, partition=0)
    kafka_python.flush(PATIENCE_S)
    kafka_python.close()

    async def send_with_aiokafka() -> None:
        async with AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers, enable_idempotence=True) as producer:
            sent = [await producer.send(topic, b"aiokafka %d" % number, partition=0) for number in range(1000)]
            await asyncio.gather(*sent)

    asyncio.run(send_with_aiokafka())
    lines = b"".join(b"kcat %d\n" % number for number in range(1000))
    run_kcat("-P", "-b", node.bootstrap_servers, "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=lines)

    batches = node.stored_batches(topic)
    assert len({batch.producer_id for batch in batches}) == 4
    assert all(batch.producer_id >= 0 and batch.base_sequence >= 0 for batch in batches)
    values = [one.message.value for one in Confluent().read(node.bootstrap_servers, topic)]
    assert values == [
        b"%b %d" % (name, number)
        for name, count in ((b"confluent", 3000), (b"kafka-python", 1000), (b"aiokafka", 1000), (b"kcat", 1000))
        for number in range(count)
    ]


def test_an_idempotent_producer_outlives_crashes_of_the_node(own_node: NodeProcess) -> None:
    """Whatever it has to repeat, each message is there once and in its place."""
    topic = own_node.create_topic(new_name())
    settings = {"bootstrap.servers": own_node.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
    producer = Producer({**settings, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50})
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    for number in range(30_000):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
        producer.poll(0)
        if number in {8_000, 16_000, 24_000}:
            own_node.kill()
            own_node.start()
    assert producer.flush(PATIENCE_S) == 0

    assert not errors
    seen = Confluent().read(own_node.bootstrap_servers, topic)
    assert [int(one.message.value or b"") for one in seen] == list(range(30_000))
    assert [one.offset for one in seen] == list(range(30_000))
