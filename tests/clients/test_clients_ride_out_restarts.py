"""Clients that stay connected while their node stops, crashes and comes back: they go on where they were."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.four_clients import Confluent, Message
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

PORTION = 500
ENDINGS = ("stop", "kill")


def restart(node: NodeProcess, ending: str) -> None:
    getattr(node, ending)()
    node.start()


def portion(number: int) -> list[bytes]:
    return [b"%d" % value for value in range(number * PORTION, (number + 1) * PORTION)]


def write_portion(node: NodeProcess, topic: str, number: int) -> None:
    Confluent().write(node.bootstrap_servers, topic, [Message(value) for value in portion(number)])


def test_confluent_goes_on_reading(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    consumer = Consumer(
        {"bootstrap.servers": own_node.bootstrap_servers, "group.id": "nobody", "reconnect.backoff.max.ms": 200}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for number, ending in enumerate(ENDINGS):
        write_portion(own_node, topic, number)
        received: list[bytes | None] = []
        while len(received) < PORTION:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is None:
                received.append(message.value())
        assert received == portion(number)
        restart(own_node, ending)
    consumer.close()


def test_kafka_python_goes_on_reading(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    place = KafkaPythonPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=own_node.bootstrap_servers, reconnect_backoff_max_ms=200)
    consumer.assign([place])
    consumer.seek(place, 0)
    for number, ending in enumerate(ENDINGS):
        write_portion(own_node, topic, number)
        received: list[bytes] = []
        while len(received) < PORTION:
            received += [record.value for records in consumer.poll(1000).values() for record in records]
        assert received == portion(number)
        restart(own_node, ending)
    consumer.close()


async def test_aiokafka_goes_on_reading(own_node: NodeProcess) -> None:
    topic = await asyncio.to_thread(own_node.create_topic, new_name())
    place = AiokafkaPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=own_node.bootstrap_servers) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        for number, ending in enumerate(ENDINGS):
            await asyncio.to_thread(write_portion, own_node, topic, number)
            received = [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(PORTION)]
            assert received == portion(number)
            await asyncio.to_thread(restart, own_node, ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_idempotent_producers_of_every_library_go_on_writing(own_node: NodeProcess, ending: str) -> None:
    confluent_topic, python_topic, asyncio_topic = (own_node.create_topic(new_name()) for _ in range(3))
    settings = {"bootstrap.servers": own_node.bootstrap_servers, "reconnect.backoff.max.ms": 200}
    confluent = Producer({**settings, "enable.idempotence": True})
    kafka_python = KafkaProducer(bootstrap_servers=own_node.bootstrap_servers, reconnect_backoff_max_ms=200)

    async def write_with_aiokafka() -> None:
        async with AIOKafkaProducer(bootstrap_servers=own_node.bootstrap_servers, enable_idempotence=True) as aiokafka:
            for number in range(2):
                sent = [await aiokafka.send(asyncio_topic, value, partition=0) for value in portion(number)]
                if number == 0:
                    await asyncio.to_thread(write_and_restart)
                await asyncio.gather(*sent)

    def write_and_restart() -> None:
        write_with_both(0)
        restart(own_node, ending)
        write_with_both(1)

    def write_with_both(number: int) -> None:
        for value in portion(number):
            confluent.produce(confluent_topic, value, partition=0)
            kafka_python.send(python_topic, value, partition=0)

    asyncio.run(write_with_aiokafka())
    assert confluent.flush(PATIENCE_S) == 0
    kafka_python.flush(PATIENCE_S)
    kafka_python.close()

    for topic in (confluent_topic, python_topic, asyncio_topic):
        values = [one.message.value for one in Confluent().read(own_node.bootstrap_servers, topic)]
        assert values == portion(0) + portion(1)
