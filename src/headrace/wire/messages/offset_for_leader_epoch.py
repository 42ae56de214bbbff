# Generated from schemas/offset_for_leader_epoch.schema by tools/generate_messages.py; do not edit.
"""OffsetForLeaderEpoch: where a leader epoch ended, to find out where a log diverges."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_hiiq = Struct(">hiiq")
_iii = Struct(">iii")


@dataclass(slots=True)
class OffsetForLeaderPartition:
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        partition, current_leader_epoch, leader_epoch = reader.unpack(_iii)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition, current_leader_epoch, leader_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.pack(_iii, self.partition, self.current_leader_epoch, self.leader_epoch)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetForLeaderTopic:
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        topic = reader.string(compact)
        partitions = reader.array(OffsetForLeaderPartition.decode, version, compact, 12)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.topic, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetForLeaderEpochRequest:
    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[tuple[int, int]] = (2, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        replica_id = reader.int32() if version >= 3 else -2
        topics = reader.array(OffsetForLeaderTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(replica_id, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 3:
            writer.int32(self.replica_id)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EpochEndOffset:
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        error_code, partition, leader_epoch, end_offset = reader.unpack(_hiiq)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, partition, leader_epoch, end_offset)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.pack(_hiiq, self.error_code, self.partition, self.leader_epoch, self.end_offset)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        topic = reader.string(compact)
        partitions = reader.array(EpochEndOffset.decode, version, compact, 18)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.topic, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OffsetForLeaderEpochResponse:
    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[tuple[int, int]] = (2, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32()
        topics = reader.array(OffsetForLeaderTopicResult.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
