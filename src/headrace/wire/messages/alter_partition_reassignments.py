# Generated from schemas/alter_partition_reassignments.schema by tools/generate_messages.py; do not edit.
"""AlterPartitionReassignments: move partitions to other brokers; null replicas cancel a move."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class ReassignablePartition:
    partition_index: int = 0
    replicas: list[int] | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        replicas = reader.nullable_numbers("i", True)
        reader.skip_tagged_fields()
        return cls(partition_index, replicas)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)
        writer.nullable_numbers("i", self.replicas, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ReassignableTopic:
    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(ReassignablePartition.decode, version, True, 6)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest:
    API_KEY: ClassVar[int] = 45
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[ReassignableTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        timeout_ms = reader.int32()
        allow_replication_factor_change = reader.boolean() if version >= 1 else True
        topics = reader.array(ReassignableTopic.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(timeout_ms, allow_replication_factor_change, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms)
        if version >= 1:
            writer.boolean(self.allow_replication_factor_change)
        elif not self.allow_replication_factor_change:
            raise unsayable("AlterPartitionReassignmentsRequest.allow_replication_factor_change", version)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ReassignablePartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(partition_index, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.partition_index, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ReassignableTopicResponse:
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(ReassignablePartitionResponse.decode, version, True, 8)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse:
    API_KEY: ClassVar[int] = 45
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        allow_replication_factor_change = reader.boolean() if version >= 1 else True
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        responses = reader.array(ReassignableTopicResponse.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        if version >= 1:
            writer.boolean(self.allow_replication_factor_change)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.responses, version, True)
        writer.no_tagged_fields()
