# Generated from schemas/describe_topic_partitions.schema by tools/generate_messages.py; do not edit.
"""DescribeTopicPartitions: Metadata in pages, with the eligible leader replicas."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_ut = Struct(">16s?")
_hiii = Struct(">hiii")


@dataclass(slots=True)
class TopicRequest:
    name: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        reader.skip_tagged_fields()
        return cls(name)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Cursor:
    topic_name: str = ""
    partition_index: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_name = reader.string(True)
        partition_index = reader.int32()
        reader.skip_tagged_fields()
        return cls(topic_name, partition_index)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic_name, True)
        writer.int32(self.partition_index)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeTopicPartitionsRequest:
    API_KEY: ClassVar[int] = 75
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: Cursor | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topics = reader.array(TopicRequest.decode, version, True, 2)
        response_partition_limit = reader.int32()
        cursor = Cursor.decode(reader, version) if reader.int8() >= 0 else None
        reader.skip_tagged_fields()
        return cls(topics, response_partition_limit, cursor)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topics, version, True)
        writer.int32(self.response_partition_limit)
        if self.cursor is None:
            writer.int8(-1)
        else:
            writer.int8(1)
            self.cursor.encode(writer, version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code, partition_index, leader_id, leader_epoch = reader.unpack(_hiii)
        replica_nodes = reader.numbers("i", True)
        isr_nodes = reader.numbers("i", True)
        eligible_leader_replicas = reader.nullable_numbers("i", True)
        last_known_elr = reader.nullable_numbers("i", True)
        offline_replicas = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(
            error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, eligible_leader_replicas,
            last_known_elr, offline_replicas,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_hiii, self.error_code, self.partition_index, self.leader_id, self.leader_epoch)
        writer.numbers("i", self.replica_nodes, True)
        writer.numbers("i", self.isr_nodes, True)
        writer.nullable_numbers("i", self.eligible_leader_replicas, True)
        writer.nullable_numbers("i", self.last_known_elr, True)
        writer.numbers("i", self.offline_replicas, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: int = 0
    name: str | None = ""
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        name = reader.nullable_string(True)
        topic_id, is_internal = reader.unpack(_ut)
        partitions = reader.array(DescribeTopicPartitionsResponsePartition.decode, version, True, 20)
        topic_authorized_operations = reader.int32()
        reader.skip_tagged_fields()
        return cls(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.name, True)
        writer.pack(_ut, self.topic_id, self.is_internal)
        writer.array(self.partitions, version, True)
        writer.int32(self.topic_authorized_operations)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    API_KEY: ClassVar[int] = 75
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        topics = reader.array(DescribeTopicPartitionsResponseTopic.decode, version, True, 26)
        next_cursor = Cursor.decode(reader, version) if reader.int8() >= 0 else None
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics, next_cursor)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, True)
        if self.next_cursor is None:
            writer.int8(-1)
        else:
            writer.int8(1)
            self.next_cursor.encode(writer, version)
        writer.no_tagged_fields()
