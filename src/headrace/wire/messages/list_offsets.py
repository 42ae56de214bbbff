# Generated from schemas/list_offsets.schema by tools/generate_messages.py; do not edit.
"""ListOffsets: offsets by timestamp, where some timestamps are words."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ihqq = Struct(">ihqq")


@dataclass(slots=True)
class ListOffsetsPartition:
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        partition_index = reader.int32()
        current_leader_epoch = reader.int32() if version >= 4 else -1
        timestamp = reader.int64()
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, current_leader_epoch, timestamp)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.int32(self.partition_index)
        if version >= 4:
            writer.int32(self.current_leader_epoch)
        writer.int64(self.timestamp)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ListOffsetsTopic:
    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        name = reader.string(compact)
        partitions = reader.array(ListOffsetsPartition.decode, version, compact, 12)
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
class ListOffsetsRequest:
    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (1, 11)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    replica_id: int = 0
    isolation_level: int = 0  # 0 read_uncommitted, 1 read_committed
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        replica_id = reader.int32()
        isolation_level = reader.int8() if version >= 2 else 0
        topics = reader.array(ListOffsetsTopic.decode, version, compact, 3)
        timeout_ms = reader.int32() if version >= 10 else 0
        if compact:
            reader.skip_tagged_fields()
        return cls(replica_id, isolation_level, topics, timeout_ms)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.int32(self.replica_id)
        if version >= 2:
            writer.int8(self.isolation_level)
        elif self.isolation_level != 0:
            raise unsayable("ListOffsetsRequest.isolation_level", version)
        writer.array(self.topics, version, compact)
        if version >= 10:
            writer.int32(self.timeout_ms)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        partition_index, error_code, timestamp, offset = reader.unpack(_ihqq)
        leader_epoch = reader.int32() if version >= 4 else -1
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, error_code, timestamp, offset, leader_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.pack(_ihqq, self.partition_index, self.error_code, self.timestamp, self.offset)
        if version >= 4:
            writer.int32(self.leader_epoch)
        elif self.leader_epoch != -1:
            raise unsayable("ListOffsetsPartitionResponse.leader_epoch", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        name = reader.string(compact)
        partitions = reader.array(ListOffsetsPartitionResponse.decode, version, compact, 22)
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
class ListOffsetsResponse:
    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (1, 11)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        throttle_time_ms = reader.int32() if version >= 2 else 0
        topics = reader.array(ListOffsetsTopicResponse.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
