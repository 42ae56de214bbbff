# Generated from schemas/group_records.schema by tools/generate_messages.py; do not edit.
"""The records of `__consumer_offsets`, in Kafka's own formats: groups, their members and their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_iib = Struct(">iib")


@dataclass(slots=True)
class OffsetCommitKey:
    RECORD_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (1, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group: str = ""
    topic: str = ""
    partition: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group = reader.string()
        topic = reader.string()
        partition = reader.int32()
        return cls(group, topic, partition)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group)
        writer.string(self.topic)
        writer.int32(self.partition)


@dataclass(slots=True)
class OffsetCommitValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        offset = reader.int64()
        leader_epoch = reader.int32() if version >= 3 else -1
        metadata = reader.string(compact)
        commit_timestamp = reader.int64()
        expire_timestamp = reader.int64() if version == 1 else -1
        if compact:
            reader.skip_tagged_fields()
        return cls(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int64(self.offset)
        if version >= 3:
            writer.int32(self.leader_epoch)
        writer.string(self.metadata, compact)
        writer.int64(self.commit_timestamp)
        if version == 1:
            writer.int64(self.expire_timestamp)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class GroupMetadataKey:
    RECORD_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (2, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group = reader.string()
        return cls(group)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group)


@dataclass(slots=True)
class MemberMetadata:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = 0
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 3 else None
        client_id = reader.string(compact)
        client_host = reader.string(compact)
        rebalance_timeout = reader.int32() if version >= 1 else 0
        session_timeout = reader.int32()
        subscription = reader.blob(compact)
        assignment = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(
            member_id, group_instance_id, client_id, client_host, rebalance_timeout, session_timeout, subscription,
            assignment,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.member_id, compact)
        if version >= 3:
            writer.nullable_string(self.group_instance_id, compact)
        writer.string(self.client_id, compact)
        writer.string(self.client_host, compact)
        if version >= 1:
            writer.int32(self.rebalance_timeout)
        writer.int32(self.session_timeout)
        writer.blob(self.subscription, compact)
        writer.blob(self.assignment, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class GroupMetadataValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        protocol_type = reader.string(compact)
        generation = reader.int32()
        protocol = reader.nullable_string(compact)
        leader = reader.nullable_string(compact)
        current_state_timestamp = reader.int64() if version >= 2 else -1
        members = reader.array(MemberMetadata.decode, version, compact, 15)
        if compact:
            reader.skip_tagged_fields()
        return cls(protocol_type, generation, protocol, leader, current_state_timestamp, members)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.protocol_type, compact)
        writer.int32(self.generation)
        writer.nullable_string(self.protocol, compact)
        writer.nullable_string(self.leader, compact)
        if version >= 2:
            writer.int64(self.current_state_timestamp)
        writer.array(self.members, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupMetadataKey:
    RECORD_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[tuple[int, int]] = (3, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        return cls(group_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)


@dataclass(slots=True)
class ConsumerGroupMetadataValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    epoch: int = 0
    metadata_hash: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        epoch = reader.int32()
        metadata_hash: int = 0
        for tag in reader.tagged_fields():
            if tag == 0:
                metadata_hash = reader.int64()
        return cls(epoch, metadata_hash)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.epoch)
        tagged: list[tuple[int, Writer]] = []
        if self.metadata_hash != 0:
            value = Writer()
            value.int64(self.metadata_hash)
            tagged.append((0, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class ConsumerGroupMemberMetadataKey:
    RECORD_KEY: ClassVar[int] = 5
    VERSIONS: ClassVar[tuple[int, int]] = (5, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""
    member_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        member_id = reader.string()
        return cls(group_id, member_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)
        writer.string(self.member_id)


@dataclass(slots=True)
class ConsumerGroupMemberMetadataValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        instance_id = reader.nullable_string(True)
        rack_id = reader.nullable_string(True)
        client_id = reader.string(True)
        client_host = reader.string(True)
        subscribed_topic_names = reader.strings(True)
        subscribed_topic_regex = reader.nullable_string(True)
        rebalance_timeout_ms = reader.int32()
        server_assignor = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(
            instance_id, rack_id, client_id, client_host, subscribed_topic_names, subscribed_topic_regex,
            rebalance_timeout_ms, server_assignor,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_string(self.instance_id, True)
        writer.nullable_string(self.rack_id, True)
        writer.string(self.client_id, True)
        writer.string(self.client_host, True)
        writer.strings(self.subscribed_topic_names, True)
        writer.nullable_string(self.subscribed_topic_regex, True)
        writer.int32(self.rebalance_timeout_ms)
        writer.nullable_string(self.server_assignor, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    RECORD_KEY: ClassVar[int] = 6
    VERSIONS: ClassVar[tuple[int, int]] = (6, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        return cls(group_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    assignment_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        assignment_epoch = reader.int32()
        reader.skip_tagged_fields()
        return cls(assignment_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.assignment_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMemberKey:
    RECORD_KEY: ClassVar[int] = 7
    VERSIONS: ClassVar[tuple[int, int]] = (7, 7)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""
    member_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        member_id = reader.string()
        return cls(group_id, member_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)
        writer.string(self.member_id)


@dataclass(slots=True)
class TargetTopicPartitions:
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        partitions = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.numbers("i", self.partitions, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMemberValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_partitions: list[TargetTopicPartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_partitions = reader.array(TargetTopicPartitions.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(topic_partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topic_partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    RECORD_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (8, 8)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""
    member_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        member_id = reader.string()
        return cls(group_id, member_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)
        writer.string(self.member_id)


@dataclass(slots=True)
class CurrentTopicPartitions:
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        partitions = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.numbers("i", self.partitions, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[CurrentTopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        member_epoch, previous_member_epoch, state = reader.unpack(_iib)
        assigned_partitions = reader.array(CurrentTopicPartitions.decode, version, True, 18)
        partitions_pending_revocation = reader.array(CurrentTopicPartitions.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(member_epoch, previous_member_epoch, state, assigned_partitions, partitions_pending_revocation)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iib, self.member_epoch, self.previous_member_epoch, self.state)
        writer.array(self.assigned_partitions, version, True)
        writer.array(self.partitions_pending_revocation, version, True)
        writer.no_tagged_fields()
