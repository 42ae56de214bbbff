"""A consumer group that reads all the time and commits where it is: what it was told is committed must stay so."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults.asking_again import until_told
from tests.faults.history import Partition
from tests.faults.load import QUICK_RECONNECT, Client
from tests.faults.node_process import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.history import History

MEMBERS = 2
SESSION_MS = 6000  # the shortest that nodes allow by default
MESSAGES_MAX = 500
LOOK_S = 10.0


class CommittingGroup:
    """Its members, and what they know about the group's offsets."""

    def __init__(
        self, name: str, bootstrap: str, history: History, topics: Sequence[str], partitions: Sequence[Partition]
    ) -> None:
        self.name = name
        self.topics = topics
        self.bootstrap = bootstrap
        self.commit_count = 0
        self._partitions = partitions
        self._lock = threading.Lock()
        self._acked = dict.fromkeys(partitions, 0)
        self._asked = dict.fromkeys(partitions, 0)
        self.members = [_Member(f"{name}-{number}", self, history) for number in range(1, MEMBERS + 1)]

    def wait_for_commits(self, count: int) -> None:
        goal = self.commit_count + count
        wait_until(lambda: self.commit_count >= goal or self._is_broken, "the group commits again", self._troubles)
        assert not self._is_broken, self._troubles()

    @property
    def _is_broken(self) -> bool:
        return any(member.trouble is not None for member in self.members)

    def _troubles(self) -> str:
        return "\n".join([*(member.explained() for member in self.members), self._as_coordinator_sees_it()])

    def _as_coordinator_sees_it(self) -> str:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUICK_RECONNECT})
        try:
            group = admin.describe_consumer_groups([self.name], request_timeout=LOOK_S)[self.name].result()
        except KafkaException as refusal:
            return f"nobody says how the group is: {refusal}"
        members = [f"{it.member_id}: {it.assignment.topic_partitions}" for it in group.members]
        return f"{group.state.name} at {group.coordinator}, members: {members}"

    def asks(self, offsets: dict[Partition, int]) -> None:
        with self._lock:
            for partition, offset in offsets.items():
                self._asked[partition] = max(offset, self._asked[partition])

    def committed(self, offsets: dict[Partition, int]) -> None:
        with self._lock:
            self.commit_count += 1
            for partition, offset in offsets.items():
                self._acked[partition] = max(offset, self._acked[partition])

    def began(self, partition: Partition, offset: int, known: int) -> None:
        """A member was given a partition and reads from here. `known` was committed before it asked where to begin."""
        assert known <= offset <= self._asked[partition], (
            f"{partition}: {self.name} goes on at {offset}; it had {known}, and asked for {self._asked[partition]}"
        )

    def acked(self, partition: Partition) -> int:
        return self._acked[partition]

    def check(self) -> None:
        """In the end: where the group stands, it has said to be."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.name, **QUICK_RECONNECT}
        consumer = Consumer(settings)
        wanted = [TopicPartition(*partition) for partition in self._partitions]
        for found in until_told(lambda: consumer.committed(wanted, timeout=PATIENCE_S)):
            partition = Partition(found.topic, found.partition)
            self.began(partition, max(found.offset, 0), self._acked[partition])
        consumer.close()


class _Member(Client):
    def __init__(self, name: str, group: CommittingGroup, history: History) -> None:
        super().__init__(name, history, seed=0)
        self._last_refusal: KafkaException | KafkaError | None = None
        self._group = group
        self._known: dict[Partition, int] = {}
        """What was committed when this member was given partitions of which it has read nothing yet."""

    def explained(self) -> str:
        return f"{self.name} was last told {self._last_refusal}, and {self.whereabouts()}"

    def work(self) -> None:
        group = self._group
        consumer = Consumer(
            {
                "bootstrap.servers": group.bootstrap,
                "group.id": group.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "socket.timeout.ms": 2000,
                **QUICK_RECONNECT,
            }
        )
        consumer.subscribe(group.topics, on_assign=self._assigned)
        try:
            while not self.stopping.is_set():
                self._take(consumer)
        finally:
            consumer.close()

    def _assigned(self, _: Consumer, given: list[TopicPartition]) -> None:
        partitions = [Partition(it.topic, it.partition) for it in given]
        self._known = {partition: self._group.acked(partition) for partition in partitions}

    def _take(self, consumer: Consumer) -> None:
        ends: dict[Partition, int] = {}
        for message in consumer.consume(MESSAGES_MAX, timeout=0.1):
            if message.error() is not None:
                self._last_refusal = message.error()
                if message.error().code() == KafkaError.NOT_COORDINATOR:
                    self._take_up_again(consumer)
                continue
            partition = Partition(message.topic(), message.partition())
            known = self._known.pop(partition, None)
            if known is not None:
                self._group.began(partition, message.offset(), known)
            self.history.saw(partition, message.offset(), message.value())
            ends[partition] = message.offset() + 1
        if ends:
            self._commit(consumer, ends)

    def _take_up_again(self, consumer: Consumer) -> None:
        """librdkafka asks but once where its group is. If whoever it asks has just ceased to coordinate the group, it
        stays a member and reads none of its partitions any more, until they are assigned anew (its issue 5586)."""
        given = consumer.assignment()
        self._assigned(consumer, given)
        consumer.assign(given)

    def _commit(self, consumer: Consumer, ends: dict[Partition, int]) -> None:
        self._group.asks(ends)
        try:
            answers = consumer.commit(
                offsets=[TopicPartition(*partition, offset) for partition, offset in ends.items()], asynchronous=False
            )
        except KafkaException as refusal:  # the coordinator is away, or another member has taken over
            self._last_refusal = refusal
            return
        assert answers is not None
        self._group.committed({Partition(it.topic, it.partition): it.offset for it in answers if it.error is None})
