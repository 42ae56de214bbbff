# Generated from schemas/offset_fetch.schema by tools/generate_messages.py; do not edit.
"""OffsetFetch: how far a group has read."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, required, unsayable

_iq = Struct(">iq")
_iqi = Struct(">iqi")


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        name = reader.string(compact)
        partition_indexes = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partition_indexes)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.string(self.name, compact)
        writer.numbers("i", self.partition_indexes, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partition_indexes: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True) if version <= 9 else ""
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        partition_indexes = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(name, topic_id, partition_indexes)

    def encode(self, writer: Writer, version: int) -> None:
        if version <= 9:
            writer.string(self.name, True)
        if version >= 10:
            writer.uuid(self.topic_id)
        writer.numbers("i", self.partition_indexes, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string(True)
        member_id = reader.nullable_string(True) if version >= 9 else None
        member_epoch = reader.int32() if version >= 9 else -1
        topics = reader.nullable_array(OffsetFetchRequestTopics.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(group_id, member_id, member_epoch, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, True)
        if version >= 9:
            writer.nullable_string(self.member_id, True)
        if version >= 9:
            writer.int32(self.member_epoch)
        writer.nullable_array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchRequest:
    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[tuple[int, int]] = (1, 10)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        group_id = reader.string(compact) if version <= 7 else ""
        topics: list[OffsetFetchRequestTopic] | None = []
        if version <= 7:
            topics = (
                reader.nullable_array(OffsetFetchRequestTopic.decode, version, compact, 3)
                if version >= 2
                else reader.array(OffsetFetchRequestTopic.decode, version, compact, 3)
            )
        groups = reader.array(OffsetFetchRequestGroup.decode, version, compact, 3) if version >= 8 else []
        require_stable = reader.boolean() if version >= 7 else False
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, topics, groups, require_stable)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        if version <= 7:
            writer.string(self.group_id, compact)
        elif self.group_id != "":
            raise unsayable("OffsetFetchRequest.group_id", version)
        if version <= 7:
            if version >= 2:
                writer.nullable_array(self.topics, version, compact)
            else:
                writer.array(required(self.topics, "OffsetFetchRequest.topics", version), version, compact)
        elif self.topics != []:
            raise unsayable("OffsetFetchRequest.topics", version)
        if version >= 8:
            writer.array(self.groups, version, compact)
        elif self.groups:
            raise unsayable("OffsetFetchRequest.groups", version)
        if version >= 7:
            writer.boolean(self.require_stable)
        elif self.require_stable:
            raise unsayable("OffsetFetchRequest.require_stable", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        partition_index, committed_offset = reader.unpack(_iq)
        committed_leader_epoch = reader.int32() if version >= 5 else -1
        metadata = reader.nullable_string(compact)
        error_code = reader.int16()
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, committed_offset, committed_leader_epoch, metadata, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.pack(_iq, self.partition_index, self.committed_offset)
        if version >= 5:
            writer.int32(self.committed_leader_epoch)
        writer.nullable_string(self.metadata, compact)
        writer.int16(self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        name = reader.string(compact)
        partitions = reader.array(OffsetFetchResponsePartition.decode, version, compact, 16)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.string(self.name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, committed_offset, committed_leader_epoch = reader.unpack(_iqi)
        metadata = reader.nullable_string(True)
        error_code = reader.int16()
        reader.skip_tagged_fields()
        return cls(partition_index, committed_offset, committed_leader_epoch, metadata, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iqi, self.partition_index, self.committed_offset, self.committed_leader_epoch)
        writer.nullable_string(self.metadata, True)
        writer.int16(self.error_code)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True) if version <= 9 else ""
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        partitions = reader.array(OffsetFetchResponsePartitions.decode, version, True, 20)
        reader.skip_tagged_fields()
        return cls(name, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        if version <= 9:
            writer.string(self.name, True)
        if version >= 10:
            writer.uuid(self.topic_id)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string(True)
        topics = reader.array(OffsetFetchResponseTopics.decode, version, True, 3)
        error_code = reader.int16()
        reader.skip_tagged_fields()
        return cls(group_id, topics, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, True)
        writer.array(self.topics, version, True)
        writer.int16(self.error_code)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetFetchResponse:
    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[tuple[int, int]] = (1, 10)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        throttle_time_ms = reader.int32() if version >= 3 else 0
        topics = reader.array(OffsetFetchResponseTopic.decode, version, compact, 3) if version <= 7 else []
        error_code = reader.int16() if 2 <= version <= 7 else 0
        groups = reader.array(OffsetFetchResponseGroup.decode, version, compact, 5) if version >= 8 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics, error_code, groups)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        if version <= 7:
            writer.array(self.topics, version, compact)
        elif self.topics:
            raise unsayable("OffsetFetchResponse.topics", version)
        if 2 <= version <= 7:
            writer.int16(self.error_code)
        if version >= 8:
            writer.array(self.groups, version, compact)
        elif self.groups:
            raise unsayable("OffsetFetchResponse.groups", version)
        if compact:
            writer.no_tagged_fields()
