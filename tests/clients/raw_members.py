"""Members of groups that say exactly what a test wants, in whatever version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.client.groups.consumer_protocol import encode_subscription
from headrace.model.errors import ErrorCode
from headrace.wire.api import APIS
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.wire.api import ApiKey
    from tests.clients.raw_connection import RawConnection

SESSION_MS = 60_000  # no raw member dies of silence in a test
JOIN_STATIC_FROM = 5
SEVERAL_LEAVE_FROM = 3
COMMIT_BY_ID_FROM = 10
FETCH_SEVERAL_FROM = 8


def versions_of(key: ApiKey, first: int = 0, last: int = 99) -> range:
    return range(max(first, APIS[key].version_min), min(last, APIS[key].version_max) + 1)


def find_coordinator(connection: RawConnection) -> None:
    """The first who asks has the topic of all groups made."""
    found = connection.ask(FindCoordinatorRequest(key="any"), 3)
    assert found.error_code == ErrorCode.NONE


class RawMember:
    """A member of a classic group."""

    def __init__(
        self, connection: RawConnection, group: str, instance_id: str | None = None, topics: Sequence[str] = ()
    ) -> None:
        self.connection = connection
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self._subscription = encode_subscription(topics, [], -1, None)

    def enter(self) -> RawMember:
        """Join alone and take part in the generation, so that the group is stable."""
        joined = self.ask_to_join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = self.ask_to_join()
        assert joined.error_code == ErrorCode.NONE, joined
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assert self.ask_to_sync().error_code == ErrorCode.NONE
        return self

    def ask_to_join(self, version: int | None = None, **fields: Any) -> Any:
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", self._subscription)],
            **fields,
        }
        return self.connection.ask(JoinGroupRequest(**wanted), version)

    def ask_to_sync(self, version: int | None = None, **fields: Any) -> Any:
        wanted: dict[str, Any] = {
            **self._who(version, 3),
            "generation_id": self.generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [SyncGroupRequestAssignment(self.member_id, b"share")],
            **fields,
        }
        return self.connection.ask(SyncGroupRequest(**wanted), version)

    def ask_heartbeat(self, version: int | None = None, **fields: Any) -> Any:
        wanted: dict[str, Any] = {**self._who(version, 3), "generation_id": self.generation, **fields}
        return self.connection.ask(HeartbeatRequest(**wanted), version)

    def ask_to_leave(self, version: int | None = None) -> Any:
        if version is not None and version < SEVERAL_LEAVE_FROM:
            return self.connection.ask(LeaveGroupRequest(self.group, self.member_id), version)
        leaving = [MemberIdentity(self.member_id, self.instance_id)]
        return self.connection.ask(LeaveGroupRequest(self.group, members=leaving), version)

    def _who(self, version: int | None, static_from: int) -> dict[str, Any]:
        is_static = version is None or version >= static_from
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id if is_static else None,
        }


class RawModernMember:
    """A member of a group of the newer protocol, which makes its own id."""

    def __init__(
        self, connection: RawConnection, group: str, topics: Sequence[str], instance_id: str | None = None
    ) -> None:
        self.connection = connection
        self.group = group
        self.topics = list(topics)
        self.instance_id = instance_id
        self.member_id = f"{group}-{id(self)}"
        self.epoch = 0

    def enter(self) -> RawModernMember:
        answer = self.ask_heartbeat(
            rebalance_timeout_ms=SESSION_MS, subscribed_topic_names=self.topics, topic_partitions=[]
        )
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        return self

    def ask_heartbeat(self, version: int | None = None, **fields: Any) -> Any:
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            **fields,
        }
        return self.connection.ask(ConsumerGroupHeartbeatRequest(**wanted), version)


def commit(
    connection: RawConnection,
    group: str,
    places: Mapping[tuple[str, int], int],
    version: int,
    *,
    metadata: str = "",
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> dict[tuple[str, int], int]:
    """Commit these offsets; the error of each place. From version 10 on the topics must exist."""
    ids = {
        topic: connection.topic_id(topic) if version >= COMMIT_BY_ID_FROM else b"\0" * 16
        for topic in dict.fromkeys(topic for topic, _ in places)
    }
    topics = [
        OffsetCommitRequestTopic(
            topic,
            topic_id,
            [
                OffsetCommitRequestPartition(number, offset, committed_metadata=metadata)
                for (name, number), offset in places.items()
                if name == topic
            ],
        )
        for topic, topic_id in ids.items()
    ]
    request = OffsetCommitRequest(group, generation, member_id, instance_id, topics=topics)
    answer = connection.ask(request, version)
    names = {topic_id: topic for topic, topic_id in ids.items()}
    return {
        (names[topic.topic_id] if version >= COMMIT_BY_ID_FROM else topic.name, part.partition_index): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }


def fetch(
    connection: RawConnection,
    group: str,
    topic: str,
    partitions: Sequence[int],
    version: int,
    *,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> tuple[int, dict[int, tuple[int, str | None, int]]]:
    """The group's error; and offset, metadata and error of each partition."""
    numbers = list(partitions)
    if version < FETCH_SEVERAL_FROM:
        answer = connection.ask(OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, numbers)]), version)
    else:
        topic_id = connection.topic_id(topic) if version >= COMMIT_BY_ID_FROM else b"\0" * 16
        wanted = OffsetFetchRequestGroup(
            group, member_id, member_epoch, [OffsetFetchRequestTopics(topic, topic_id, numbers)]
        )
        (answer,) = connection.ask(OffsetFetchRequest(groups=[wanted]), version).groups
    found = {
        part.partition_index: (part.committed_offset, part.metadata, part.error_code)
        for answered in answer.topics
        for part in answered.partitions
    }
    return answer.error_code, found
