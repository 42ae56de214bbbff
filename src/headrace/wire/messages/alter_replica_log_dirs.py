# Generated from schemas/alter_replica_log_dirs.schema by tools/generate_messages.py; do not edit.
"""AlterReplicaLogDirs: move replicas to another directory of the same broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")


@dataclass(slots=True)
class AlterReplicaLogDirTopic:
    name: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        partitions = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.name, compact)
        writer.numbers("i", self.partitions, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterReplicaLogDir:
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        path = reader.string(compact)
        topics = reader.array(AlterReplicaLogDirTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(path, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.path, compact)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterReplicaLogDirsRequest:
    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        dirs = reader.array(AlterReplicaLogDir.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(dirs)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.array(self.dirs, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        partition_index, error_code = reader.unpack(_ih)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_ih, self.partition_index, self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topic_name = reader.string(compact)
        partitions = reader.array(AlterReplicaLogDirPartitionResult.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic_name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.topic_name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterReplicaLogDirsResponse:
    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        results = reader.array(AlterReplicaLogDirTopicResult.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
