# Generated from schemas/delete_records.schema by tools/generate_messages.py; do not edit.
"""DeleteRecords: move the start of a log forward; what lies before it is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_iq = Struct(">iq")
_iqh = Struct(">iqh")


@dataclass(slots=True)
class DeleteRecordsPartition:
    partition_index: int = 0
    offset: int = 0  # -1 for the high watermark

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        partition_index, offset = reader.unpack(_iq)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, offset)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_iq, self.partition_index, self.offset)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteRecordsTopic:
    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        partitions = reader.array(DeleteRecordsPartition.decode, version, compact, 12)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteRecordsRequest:
    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topics = reader.array(DeleteRecordsTopic.decode, version, compact, 3)
        timeout_ms = reader.int32()
        if compact:
            reader.skip_tagged_fields()
        return cls(topics, timeout_ms)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.array(self.topics, version, compact)
        writer.int32(self.timeout_ms)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteRecordsPartitionResult:
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        partition_index, low_watermark, error_code = reader.unpack(_iqh)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, low_watermark, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_iqh, self.partition_index, self.low_watermark, self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteRecordsTopicResult:
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        partitions = reader.array(DeleteRecordsPartitionResult.decode, version, compact, 14)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteRecordsResponse:
    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        topics = reader.array(DeleteRecordsTopicResult.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
