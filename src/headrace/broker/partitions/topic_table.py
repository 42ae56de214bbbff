"""The topics that this node serves, found by name or id on every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TOPIC_NAME_MAX, topic_name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import LogId, TopicId


class ServedTopic:
    """A topic's partitions on this node.

    A place is None if only other nodes have the partition, while it is opened, or for good if it is damaged.
    """

    __slots__ = ("name", "partitions", "topic_id", "troubles")

    def __init__(self, topic_id: TopicId, name: str) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions: list[Partition | None] = []
        self.troubles: dict[int, str] = {}
        """Why a partition is offline, in words for the operator."""


class TopicTable:
    def __init__(self) -> None:
        self._by_key: dict[str | bytes, ServedTopic] = {}
        self._by_name: dict[str, ServedTopic] = {}

    def __iter__(self) -> Iterator[ServedTopic]:
        """Each topic once, in the order in which they appeared."""
        return iter(self._by_name.values())

    def topic(self, topic_id: TopicId) -> ServedTopic | None:
        return self._by_key.get(topic_id)

    def named(self, name: str) -> ServedTopic | None:
        return self._by_key.get(name)

    def add(self, topic: ServedTopic) -> None:
        self._by_key[topic.name] = topic
        self._by_key[topic.topic_id] = topic
        self._by_name[topic.name] = topic

    def remove(self, topic_id: TopicId) -> ServedTopic | None:
        topic = self._by_key.pop(topic_id, None)
        if topic is not None:
            del self._by_key[topic.name]
            del self._by_name[topic.name]
        return topic

    def partition(self, topic: str | bytes, index: int) -> Partition:
        """The partition to read or write; `topic` is a name, or an id's 16 bytes. Raises Refusal."""
        served = self._by_key.get(topic)
        if served is None:
            raise _unknown_topic(topic)
        if 0 <= index < len(served.partitions):
            partition = served.partitions[index]
            if partition is not None:
                return partition
        raise _unavailable(served, index)

    def find(self, topic: str | bytes, index: int) -> Partition | None:
        served = self._by_key.get(topic)
        return served.partitions[index] if served is not None and 0 <= index < len(served.partitions) else None

    def partitions(self) -> list[Partition]:
        """Those that this node serves now."""
        return [partition for topic in self for partition in topic.partitions if partition is not None]

    def is_offline(self, topic_id: TopicId, index: int) -> bool:
        served = self.topic(topic_id)
        return served is not None and index in served.troubles

    def troubles(self, topic_id: TopicId) -> tuple[int, ...]:
        """Which of a topic's partitions are offline."""
        served = self.topic(topic_id)
        return () if served is None else tuple(served.troubles)

    def by_log_id(self, log_id: LogId) -> Partition | None:
        served = self._by_key.get(log_id.topic_id)
        if served is None or log_id.partition >= len(served.partitions):
            return None
        return served.partitions[log_id.partition]


def missing_topic_code(name: str) -> ErrorCode:
    """What to say of a topic that is not there, and may be none that ever could be."""
    problem = topic_name_problem(name)
    return ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _unknown_topic(topic: str | bytes) -> Refusal:
    if isinstance(topic, str):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic[:TOPIC_NAME_MAX]!r} here")
    return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic.hex()} here")


def _unavailable(served: ServedTopic, index: int) -> Refusal:
    trouble = served.troubles.get(index)
    if trouble is not None:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{served.name}-{index} is offline: {trouble}")
    if 0 <= index < len(served.partitions):
        return Refusal(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{served.name}-{index} is kept by other nodes, or being opened"
        )
    return Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{served.name} has {len(served.partitions)} partitions here, none is numbered {index}",
    )
