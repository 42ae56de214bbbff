"""Rows to write, and what a reader of committed records finds afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace_spark.sink.options import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

PATIENCE_S = 60.0  # against hangs only


def options_for(bootstrap_servers: str, topic: str | None = None, **options: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": bootstrap_servers, **options}
    if topic is not None:
        given["topic"] = topic
    return SinkOptions.parse(given)


def rows_of(values: Iterable[bytes], rows_per_batch: int = 1000) -> list[pa.RecordBatch]:
    """As Spark hands them to a task."""
    values = list(values)
    return [
        pa.record_batch({"value": pa.array(values[start : start + rows_per_batch], pa.binary())})
        for start in range(0, len(values), rows_per_batch)
    ]


def committed_records(bootstrap_servers: str, topic: str) -> list[Message]:
    """All that a reader of committed records can see now, in order within each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    found: list[Message] = []
    try:
        partitions = sorted(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unfinished = set(partitions)
        while unfinished:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} gave nothing for {PATIENCE_S} s"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                unfinished.discard(message.partition())
    finally:
        consumer.close()
    return found


def committed_values(bootstrap_servers: str, topic: str) -> list[bytes]:
    return [message.value() for message in committed_records(bootstrap_servers, topic)]
