"""What lies in a topic, read by a client that has nothing to do with Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess


@dataclass(frozen=True, order=True)
class Found:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def everything_in(node: NodeProcess, topic: str, *, committed_only: bool = True) -> list[Found]:
    """All records, in the order of partitions and offsets."""
    isolation = "read_committed" if committed_only else "read_uncommitted"
    settings = {
        "bootstrap.servers": node.bootstrap_servers,
        "group.id": new_name("reader"),
        "isolation.level": isolation,
        "enable.partition.eof": True,  # how it says that a partition has no more
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found, ended = [], set[int]()
        while len(ended) < len(partitions):
            (message,) = consumer.consume(1, PATIENCE_S)
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
            found.append(Found(partition, offset, message.key(), message.value(), tuple(headers)))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.partition, each.offset))
