# Generated from schemas/describe_log_dirs.schema by tools/generate_messages.py; do not edit.
"""DescribeLogDirs: the directories that hold logs, and how many bytes each log takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_iqqt = Struct(">iqq?")
_qq = Struct(">qq")


@dataclass(slots=True)
class DescribableLogDirTopic:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topic = reader.string(compact)
        partitions = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.topic, compact)
        writer.numbers("i", self.partitions, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeLogDirsRequest:
    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[tuple[int, int]] = (1, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topics = reader.nullable_array(DescribableLogDirTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.nullable_array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeLogDirsPartition:
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False
    dirty_bytes: int = -1  # ours: to be compacted; -1: it never is
    saved_bytes: int = 0  # ours: freed by compaction since the start
    compacted_ms: int = -1  # ours: when it last was
    compaction_error: str | None = None  # ours: why it is not

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        partition_index, partition_size, offset_lag, is_future_key = reader.unpack(_iqqt)
        dirty_bytes: int = -1
        saved_bytes: int = 0
        compacted_ms: int = -1
        compaction_error: str | None = None
        if compact:
            for tag in reader.tagged_fields():
                if tag == 10000:
                    dirty_bytes = reader.int64()
                elif tag == 10001:
                    saved_bytes = reader.int64()
                elif tag == 10002:
                    compacted_ms = reader.int64()
                elif tag == 10003:
                    compaction_error = reader.nullable_string(True)
        return cls(
            partition_index, partition_size, offset_lag, is_future_key, dirty_bytes, saved_bytes, compacted_ms,
            compaction_error,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_iqqt, self.partition_index, self.partition_size, self.offset_lag, self.is_future_key)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.dirty_bytes != -1:
                value = Writer()
                value.int64(self.dirty_bytes)
                tagged.append((10000, value))
            if self.saved_bytes != 0:
                value = Writer()
                value.int64(self.saved_bytes)
                tagged.append((10001, value))
            if self.compacted_ms != -1:
                value = Writer()
                value.int64(self.compacted_ms)
                tagged.append((10002, value))
            if self.compaction_error is not None:
                value = Writer()
                value.nullable_string(self.compaction_error, True)
                tagged.append((10003, value))
            writer.tagged_fields(tagged)


@dataclass(slots=True)
class DescribeLogDirsTopic:
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        partitions = reader.array(DescribeLogDirsPartition.decode, version, compact, 21)
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
class DescribeLogDirsResult:
    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        error_code = reader.int16()
        log_dir = reader.string(compact)
        topics = reader.array(DescribeLogDirsTopic.decode, version, compact, 3)
        total_bytes, usable_bytes = reader.unpack(_qq) if version >= 4 else (-1, -1)
        is_cordoned = reader.boolean() if version >= 5 else False
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, log_dir, topics, total_bytes, usable_bytes, is_cordoned)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int16(self.error_code)
        writer.string(self.log_dir, compact)
        writer.array(self.topics, version, compact)
        if version >= 4:
            writer.pack(_qq, self.total_bytes, self.usable_bytes)
        if version >= 5:
            writer.boolean(self.is_cordoned)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeLogDirsResponse:
    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[tuple[int, int]] = (1, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        error_code = reader.int16() if version >= 3 else 0
        results = reader.array(DescribeLogDirsResult.decode, version, compact, 5)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        if version >= 3:
            writer.int16(self.error_code)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
