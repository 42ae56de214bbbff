"""A KIP-848 group with a log, topics and a clock around it, and consumers that follow it as real clients do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.coordinators.effects import Caller, Effects, Now
from headrace.coordinators.groups.modern.members import by_topic, partitions_of
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.groups.settings import GroupSettings
from headrace.coordinators.groups.topics import KnownTopic
from headrace.coordinators.records import GROUP_KINDS, LogRecord, decode, encode
from headrace.model.errors import Refusal
from headrace.model.names import LogId, Millis, TopicId
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP = "readers"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
WALL_AHEAD_MS = 1_700_000_000_000


class TopicsInMemory:
    def __init__(self, **partition_counts: int) -> None:
        self._by_name: dict[str, KnownTopic] = {}
        self._made = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int) -> KnownTopic:
        self._made += 1
        self._by_name[name] = KnownTopic(TopicId(self._made.to_bytes(16, "big")), name, partition_count)
        return self._by_name[name]

    def grow(self, name: str, partition_count: int) -> None:
        self._by_name[name] = self._by_name[name]._replace(partition_count=partition_count)

    def delete(self, name: str) -> None:
        del self._by_name[name]

    def named(self, name: str) -> KnownTopic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: TopicId) -> KnownTopic | None:
        return next((topic for topic in self._by_name.values() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def partitions(self, *names: str) -> set[LogId]:
        return {
            LogId(topic.topic_id, partition)
            for topic in map(self.named, names)
            if topic is not None
            for partition in range(topic.partition_count)
        }


def through_bytes(record: LogRecord) -> LogRecord:
    return decode(GROUP_KINDS, *encode(record))


class World:
    """Does what the shell does: writes records, applies them, hands answers out."""

    def __init__(self, topics: TopicsInMemory, settings: GroupSettings | None = None) -> None:
        self.topics = topics
        self.settings = settings or GroupSettings(consumer_session_timeout_ms=SESSION_MS)
        self.log: list[LogRecord] = []
        self.now_ms = 1_000
        self.group = ModernGroup(GROUP, self.settings, topics)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, Millis(WALL_AHEAD_MS + self.now_ms))

    def perform(self, effects: Effects) -> list[Any]:
        for record in map(through_bytes, effects.records):
            self.log.append(record)
            self.group.apply(record)
        return [reply.response for reply in effects.replies]

    def send(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        """Raises Refusal."""
        caller = Caller("client", "/127.0.0.1", version, fresh_member_id="made-for-it")
        (response,) = self.perform(self.group.heartbeat(request, caller, object(), self.now))
        writer = Writer()
        response.encode(writer, version)
        return ConsumerGroupHeartbeatResponse.decode(Reader(writer.buffer), version)

    def try_to_send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | Refusal:
        try:
            return self.send(request)
        except Refusal as refusal:
            return refusal

    def pass_time(self, by_ms: int) -> None:
        """As the shell does it: a tick at every deadline on the way."""
        until_ms = self.now_ms + by_ms
        while (due_ms := self.group.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.perform(self.group.tick(self.now))
        self.now_ms = until_ms

    def topics_changed(self) -> None:
        self.perform(self.group.topics_changed(self.now))

    def reload(self, *, compact: bool = False) -> None:
        self.group = rebuilt(compacted(self.log) if compact else self.log, self)
        self.perform(self.group.loaded(self.now))


def rebuilt(log: Iterable[LogRecord], world: World) -> ModernGroup:
    group = ModernGroup(GROUP, world.settings, world.topics)
    for record in log:
        group.apply(record)
    return group


def compacted(log: list[LogRecord]) -> list[LogRecord]:
    """Only the last record of each key, in the order of the log."""
    last = {encode(record)[0]: at for at, record in enumerate(log)}
    return [log[at] for at in sorted(last.values())]


def durable(group: ModernGroup) -> dict[str, Any]:
    state = group._state
    return {name: getattr(state, name) for name in vars(state)}


def join(member_id: str = "a", /, *names: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        GROUP, member_id, 0, None, None, REBALANCE_MS, list(names), None, None, topic_partitions=[]
    )
    return replace(request, **fields)


def beat(member_id: str, epoch: int, owned: Iterable[LogId] | None = None, **fields: Any) -> Any:
    partitions = None if owned is None else by_topic(owned, TopicPartitions)
    return ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, topic_partitions=partitions, **fields)


def assigned(response: ConsumerGroupHeartbeatResponse) -> frozenset[LogId] | None:
    return None if response.assignment is None else partitions_of(response.assignment.topic_partitions)


class Consumer:
    """What librdkafka and the Java client do: revoke, then take, then say so; all of it again if in doubt."""

    def __init__(self, member_id: str, *names: str, regex: str | None = None, instance_id: str | None = None) -> None:
        self.member_id = member_id
        self.names = names
        self.regex = regex
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: frozenset[LogId] = frozenset()
        self.told: frozenset[LogId] = frozenset()
        """The assignment of the last answer that arrived."""
        self.says_all = True
        """After a join or a lost answer."""
        self.acknowledges = False
        self.lost_in_a_row = 0

    def request(self) -> ConsumerGroupHeartbeatRequest:
        owned = by_topic(self.owned, TopicPartitions)
        if self.says_all:
            return ConsumerGroupHeartbeatRequest(
                GROUP,
                self.member_id,
                self.epoch,
                self.instance_id,
                None,
                REBALANCE_MS,
                list(self.names),
                self.regex,
                None,
                owned,
            )
        return ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance_id,
            topic_partitions=owned if self.acknowledges else None,
        )

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.says_all = self.acknowledges = False
        self.lost_in_a_row = 0
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.told = partitions_of(response.assignment.topic_partitions)

    def lose_answer(self) -> None:
        self.says_all = True
        self.lost_in_a_row += 1

    def work(self) -> None:
        """Give up what is not assigned any more; once that is done, take what is new."""
        if self.owned != self.told:
            self.owned = self.owned & self.told if self.owned - self.told else self.told
            self.acknowledges = True

    def lose_everything(self) -> None:
        """It was fenced: its partitions are gone, and it begins anew."""
        self.epoch = 0
        self.owned = self.told = frozenset()
        self.says_all = True
        self.lost_in_a_row = 0
