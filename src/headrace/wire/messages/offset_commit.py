# Generated from schemas/offset_commit.schema by tools/generate_messages.py; do not edit.
"""OffsetCommit: remember how far a group has read."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")
_iq = Struct(">iq")


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        partition_index, committed_offset = reader.unpack(_iq)
        committed_leader_epoch = reader.int32() if version >= 6 else -1
        committed_metadata = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, committed_offset, committed_leader_epoch, committed_metadata)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        writer.pack(_iq, self.partition_index, self.committed_offset)
        if version >= 6:
            writer.int32(self.committed_leader_epoch)
        writer.nullable_string(self.committed_metadata, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        name = reader.string(compact) if version <= 9 else ""
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        partitions = reader.array(OffsetCommitRequestPartition.decode, version, compact, 14)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        if version <= 9:
            writer.string(self.name, compact)
        if version >= 10:
            writer.uuid(self.topic_id)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetCommitRequest:
    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (2, 10)
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        group_id = reader.string(compact)
        generation_id_or_member_epoch = reader.int32()
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 7 else None
        retention_time_ms = reader.int64() if version <= 4 else -1
        topics = reader.array(OffsetCommitRequestTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, generation_id_or_member_epoch, member_id, group_instance_id, retention_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        writer.string(self.group_id, compact)
        writer.int32(self.generation_id_or_member_epoch)
        writer.string(self.member_id, compact)
        if version >= 7:
            writer.nullable_string(self.group_instance_id, compact)
        elif self.group_instance_id is not None:
            raise unsayable("OffsetCommitRequest.group_instance_id", version)
        if version <= 4:
            writer.int64(self.retention_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        partition_index, error_code = reader.unpack(_ih)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        writer.pack(_ih, self.partition_index, self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        name = reader.string(compact) if version <= 9 else ""
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        partitions = reader.array(OffsetCommitResponsePartition.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        if version <= 9:
            writer.string(self.name, compact)
        if version >= 10:
            writer.uuid(self.topic_id)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetCommitResponse:
    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (2, 10)
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 8
        throttle_time_ms = reader.int32() if version >= 3 else 0
        topics = reader.array(OffsetCommitResponseTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 8
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
