"""Where a message without a key goes: one partition for a whole batch, then the next, so that all get their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.client.connections.view import Topic


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
