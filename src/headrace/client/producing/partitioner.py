"""Where a message without a key goes: one partition for a whole batch, then the next, so that all get their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic
    from headrace.model.names import TopicPartition


class StickyPartitioner:
    """Stays on a partition while a batch fills. A batch per message would cost a request per message."""

    __slots__ = ("_choices", "_turn", "partition")

    def __init__(self, topic: Topic, start: float) -> None:
        """`start` in [0, 1) is by chance, so that producers which start together do not begin in the same place."""
        self.partition = 0
        self._choices: list[int] = []
        self._turn = int(start * len(topic.partitions))
        self.learn(topic)

    def learn(self, topic: Topic) -> None:
        """The topic may have got partitions, or lost leaders. Those without a leader are left out while others live."""
        led = [part.index for part in topic.partitions if not part.is_offline]
        self._choices = led or [part.index for part in topic.partitions]
        if self.partition not in self._choices or self._turn >= len(self._choices):
            self._turn %= len(self._choices)
        self.partition = self._choices[self._turn]

    def move_on(self) -> None:
        """The batch is closed: the next one goes elsewhere."""
        self._turn = (self._turn + 1) % len(self._choices)
        self.partition = self._choices[self._turn]


class StickyPartitioners:
    """Of all topics that a producer sends to, each with the topic as the cluster last described it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_topic: dict[str, tuple[Topic, StickyPartitioner]] = {}

    def known(self, name: str) -> tuple[Topic, StickyPartitioner] | None:
        """What the last message found, as long as the cluster says nothing else."""
        entry = self._by_topic.get(name)
        return entry if entry is not None and entry[0] is self._cluster.known_topic(name) else None

    async def learn(self, name: str) -> tuple[Topic, StickyPartitioner]:
        """What the cluster says now. Refusal if there is no such topic."""
        topic = await self._cluster.topic(name)
        entry = self._by_topic.get(name)
        if entry is None:
            sticky = StickyPartitioner(topic, self._cluster.entropy.fraction())
        else:
            sticky = entry[1]
            sticky.learn(topic)
        self._by_topic[name] = (topic, sticky)
        return topic, sticky

    def move_on(self, partition: TopicPartition) -> None:
        """A batch of this partition is closed. If messages without a key went into it, they now go elsewhere."""
        entry = self._by_topic.get(partition.topic)
        if entry is not None and entry[1].partition == partition.partition:
            entry[1].move_on()
