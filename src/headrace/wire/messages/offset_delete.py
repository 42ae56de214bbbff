# Generated from schemas/offset_delete.schema by tools/generate_messages.py; do not edit.
"""OffsetDelete: forget a group's offsets in topics that it no longer reads. It never became flexible."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_hi = Struct(">hi")
_ih = Struct(">ih")


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    partition_index: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        return cls(partition_index)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string()
        partitions = reader.array(OffsetDeleteRequestPartition.decode, version, False, 4)
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name)
        writer.array(self.partitions, version, False)


@dataclass(slots=True)
class OffsetDeleteRequest:
    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string()
        topics = reader.array(OffsetDeleteRequestTopic.decode, version, False, 6)
        return cls(group_id, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id)
        writer.array(self.topics, version, False)


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    partition_index: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code = reader.unpack(_ih)
        return cls(partition_index, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.partition_index, self.error_code)


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string()
        partitions = reader.array(OffsetDeleteResponsePartition.decode, version, False, 6)
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name)
        writer.array(self.partitions, version, False)


@dataclass(slots=True)
class OffsetDeleteResponse:
    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code, throttle_time_ms = reader.unpack(_hi)
        topics = reader.array(OffsetDeleteResponseTopic.decode, version, False, 6)
        return cls(error_code, throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_hi, self.error_code, self.throttle_time_ms)
        writer.array(self.topics, version, False)
