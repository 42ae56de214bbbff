# Generated from schemas/list_partition_reassignments.schema by tools/generate_messages.py; do not edit.
"""ListPartitionReassignments: the moves that are under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partition_indexes = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(name, partition_indexes)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.numbers("i", self.partition_indexes, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ListPartitionReassignmentsRequest:
    API_KEY: ClassVar[int] = 46
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        timeout_ms = reader.int32()
        topics = reader.nullable_array(ListPartitionReassignmentsTopics.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(timeout_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms)
        writer.nullable_array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OngoingPartitionReassignment:
    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        replicas = reader.numbers("i", True)
        adding_replicas = reader.numbers("i", True)
        removing_replicas = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(partition_index, replicas, adding_replicas, removing_replicas)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)
        writer.numbers("i", self.replicas, True)
        writer.numbers("i", self.adding_replicas, True)
        writer.numbers("i", self.removing_replicas, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class OngoingTopicReassignment:
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(OngoingPartitionReassignment.decode, version, True, 8)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ListPartitionReassignmentsResponse:
    API_KEY: ClassVar[int] = 46
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        topics = reader.array(OngoingTopicReassignment.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()
