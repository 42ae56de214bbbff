"""A group coordinator with a log and two clocks around it, as a node has them, but all in memory."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.coordinators.effects import Caller, Effects, Now
from headrace.coordinators.groups.coordinator import GroupCoordinator
from headrace.coordinators.groups.settings import GroupSettings
from headrace.coordinators.groups.topics import KnownTopic
from headrace.coordinators.records import GROUP_KINDS, LogRecord, decode, encode
from headrace.model.names import Millis, ProducerId, TopicId
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequestTopics
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.primitives import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

WALL_AHEAD_MS = 1_700_000_000_000  # of the steady clock
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=1_000_000)
PARKED = "not answered yet"


class FewTopics:
    def __init__(self, **partition_counts: int) -> None:
        self.partition_counts = dict(partition_counts)

    def named(self, name: str) -> KnownTopic | None:
        partition_count = self.partition_counts.get(name)
        topic_id = TopicId(name.encode().rjust(16, b"-"))
        return None if partition_count is None else KnownTopic(topic_id, name, partition_count)

    def with_id(self, topic_id: TopicId) -> KnownTopic | None:
        return self.named(bytes(topic_id).lstrip(b"-").decode())

    def names(self) -> Iterable[str]:
        return sorted(self.partition_counts)


class Written(NamedTuple):
    """A record in the log, as bytes: what a reload finds is what can be read again."""

    key: bytes
    value: bytes | None
    producer_id: ProducerId

    @property
    def record(self) -> LogRecord:
        return decode(GROUP_KINDS, self.key, self.value)


class Marker(NamedTuple):
    producer_id: ProducerId
    is_commit: bool


class LivingCoordinator:
    def __init__(self, settings: GroupSettings = SETTINGS, topics: FewTopics | None = None) -> None:
        self.settings = settings
        self.topics = topics or FewTopics(orders=4, bills=2)
        self.mind = GroupCoordinator(settings, self.topics)
        self.log: list[Written | Marker] = []
        self.answers: dict[object, Any] = {}
        self.now = Now(0, Millis(WALL_AHEAD_MS))
        self._tokens = count()

    def perform(self, effects: Effects) -> None:
        producer_id, _ = effects.producer
        for record in effects.records:
            self.log.append(Written(*encode(record), producer_id))
            self.mind.apply(record, producer_id)
        for token, response in effects.replies:
            assert self.answers[token] is PARKED, "whoever was answered is answered again"
            self.answers[token] = response

    def ask(self, command: str, request: Any, version: int = 0, fresh_member_id: str = "") -> Any:
        """The answer, or PARKED."""
        token = next(self._tokens)
        self.answers[token] = PARKED
        caller = Caller("client", "/127.0.0.1", version, fresh_member_id)
        self.perform(getattr(self.mind, command)(request, caller, token, self.now))
        return self.answers[token]

    def mark(self, producer_id: int, *, is_commit: bool) -> None:
        marker = Marker(ProducerId(producer_id), is_commit)
        self.log.append(marker)
        self.mind.apply_marker(marker.producer_id, is_commit=is_commit)

    def wait(self, ms: int) -> None:
        """Let time go by; whatever is due happens at its time."""
        end_ms = self.now.steady_ms + ms
        while (due_ms := self.mind.next_deadline_ms()) is not None and due_ms <= end_ms:
            self._set_clock(max(due_ms, self.now.steady_ms))
            self.perform(self.mind.tick(self.now))
        self._set_clock(end_ms)

    def expire(self) -> None:
        """The whole sweep."""
        self.perform(self.mind.expire(self.now))
        self.wait(0)

    def reloaded(self) -> GroupCoordinator:
        """Another coordinator, from the log alone."""
        mind = GroupCoordinator(self.settings, self.topics)
        for entry in self.log:
            if isinstance(entry, Marker):
                mind.apply_marker(entry.producer_id, is_commit=entry.is_commit)
            else:
                mind.apply(entry.record, entry.producer_id)
        return mind

    def reload(self) -> None:
        self.mind = self.reloaded()
        self.answers.clear()  # the node has told everybody who waited to try again
        self.perform(self.mind.loaded(self.now))

    def _set_clock(self, steady_ms: int) -> None:
        self.now = Now(steady_ms, Millis(WALL_AHEAD_MS + steady_ms))

    # What clients do

    def commit(
        self,
        group_id: str,
        offset: int,
        topic: str = "orders",
        partition: int = 0,
        *,
        member_id: str = "",
        epoch: int = -1,
        version: int = 9,
        metadata: str | None = "",
        retention_ms: int = -1,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    topic, partitions=[OffsetCommitRequestPartition(partition, offset, 7, metadata)]
                )
            ],
        )
        response = self.ask("commit_offsets", request, version)
        assert [each.name for each in response.topics] == [topic]
        assert [each.partition_index for each in response.topics[0].partitions] == [partition]
        return int(response.topics[0].partitions[0].error_code)

    def commit_in_transaction(
        self,
        group_id: str,
        offset: int,
        topic: str = "orders",
        partition: int = 0,
        *,
        producer_id: int,
        member_id: str = "",
        generation: int = -1,
        version: int = 3,
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset, 7, "")])],
        )
        response = self.ask("commit_offsets_in_transaction", request, version)
        return int(response.topics[0].partitions[0].error_code)

    def fetch(self, group_id: str, topic: str = "orders", partition: int = 0, *, stable: bool = False) -> Any:
        """The answer for one partition."""
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        found = self.mind.fetch_offsets(group_id, None, -1, wanted, is_stable_required=stable)
        assert found.error_code == 0
        return found.topics[0].partitions[0]

    def join_classic(
        self,
        group_id: str,
        member_id: str = "",
        fresh_member_id: str = "classic-1",
        topics: tuple[str, ...] = ("orders",),
    ) -> Any:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", subscription(*topics))],
        )
        return self.ask("join", request, 3, fresh_member_id)

    def sync_classic(self, group_id: str, member_id: str, generation: int, *, leads: bool) -> Any:
        assignments = [SyncGroupRequestAssignment(member_id, b"share")] if leads else []
        return self.ask("sync", SyncGroupRequest(group_id, generation, member_id, assignments=assignments), 3)

    def enter_classic(self, group_id: str, member_id: str = "classic-1", topics: tuple[str, ...] = ("orders",)) -> int:
        """Join an empty group and take its assignment; the generation."""
        joined = self.join_classic(group_id, fresh_member_id=member_id, topics=topics)
        assert joined.error_code == 0
        assert self.sync_classic(group_id, member_id, joined.generation_id, leads=True).error_code == 0
        return int(joined.generation_id)

    def leave_classic(self, group_id: str, member_id: str = "classic-1") -> Any:
        return self.ask("leave", LeaveGroupRequest(group_id, member_id=member_id), 1)

    def beat_modern(
        self, group_id: str, member_id: str = "modern-1", epoch: int = 0, topics: tuple[str, ...] = ("orders",)
    ) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms = 10_000
            request.subscribed_topic_names = list(topics)
            request.topic_partitions = []
        return self.ask("consumer_heartbeat", request, 1)


def subscription(*topics: str) -> bytes:
    writer = Writer()
    writer.int16(1)
    ConsumerProtocolSubscription(topics=list(topics)).encode(writer, 1)
    return bytes(writer.buffer)
