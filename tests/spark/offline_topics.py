"""Topics to export and to compare, written and read by a client that knows nothing of ours."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

FIRST_MS = 1_750_000_000_000  # June 2025


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def sample(number: int) -> Message:
    """Keys that come back, and everything that a message may lack."""
    return Message(
        None if number % 10 == 7 else b"key-%d" % (number % 23),
        None if number % 31 == 0 else b"%d:" % number + b"x" * (number % 50),
        () if number % 3 else (("n", b"%d" % number), ("empty", b""), ("none", None)),
        FIRST_MS + number * 1000,
    )


def fill(bootstrap_servers: str, topic: str, messages: list[Message], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", **settings})
    for message in messages:
        producer.produce(
            topic, message.value, message.key, headers=list(message.headers), timestamp=message.timestamp_ms
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def read_back(bootstrap_servers: str, topic: str) -> dict[int, list[Message]]:
    """What whoever reads only what is committed sees, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reads back",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    found: dict[int, list[Message]] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    ended: set[int] = set()
    while len(ended) < len(partitions):
        record = consumer.poll(30)
        assert record is not None, f"{topic}: no end of {set(partitions) - ended}"
        if record.error() is not None:
            assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
            ended.add(record.partition())
            continue
        headers = tuple((name, value) for name, value in record.headers() or ())
        found[record.partition()].append(Message(record.key(), record.value(), headers, record.timestamp()[1]))
    consumer.close()
    return found


def by_key(partitions: dict[int, list[Message]]) -> dict[bytes, list[Message]]:
    """Each key's messages in order. A key must lie in one partition."""
    found: dict[bytes, list[Message]] = {}
    homes: dict[bytes, int] = {}
    for partition, messages in partitions.items():
        for message in messages:
            if message.key is not None:
                assert homes.setdefault(message.key, partition) == partition
                found.setdefault(message.key, []).append(message)
    return found


def everything(partitions: dict[int, list[Message]]) -> list[Message]:
    return sorted((message for messages in partitions.values() for message in messages), key=repr)
