# Generated from schemas/create_partitions.schema by tools/generate_messages.py; do not edit.
"""CreatePartitions: give topics more partitions. `count` is the new total."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_it = Struct(">i?")


@dataclass(slots=True)
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        broker_ids = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(broker_ids)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.numbers("i", self.broker_ids, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatePartitionsTopic:
    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        count = reader.int32()
        assignments = reader.nullable_array(CreatePartitionsAssignment.decode, version, compact, 2)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, count, assignments)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.name, compact)
        writer.int32(self.count)
        writer.nullable_array(self.assignments, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatePartitionsRequest:
    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topics = reader.array(CreatePartitionsTopic.decode, version, compact, 7)
        timeout_ms, validate_only = reader.unpack(_it)
        if compact:
            reader.skip_tagged_fields()
        return cls(topics, timeout_ms, validate_only)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.array(self.topics, version, compact)
        writer.pack(_it, self.timeout_ms, self.validate_only)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    name: str = ""
    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        name = reader.string(compact)
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.name, compact)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreatePartitionsResponse:
    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        results = reader.array(CreatePartitionsTopicResult.decode, version, compact, 5)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
