# Generated from schemas/consumer_group_heartbeat.schema by tools/generate_messages.py; do not edit.
"""ConsumerGroupHeartbeat: join, stay in and leave a group of the newer protocol (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")
_ii = Struct(">ii")


@dataclass(slots=True)
class TopicPartitions:
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        partitions = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.numbers("i", self.partitions, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest:
    API_KEY: ClassVar[int] = 68
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # 0 joins, -1 leaves, -2 leaves for a while (static)
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None  # what the member owns

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_id = reader.string(True)
        member_id = reader.string(True)
        member_epoch = reader.int32()
        instance_id = reader.nullable_string(True)
        rack_id = reader.nullable_string(True)
        rebalance_timeout_ms = reader.int32()
        subscribed_topic_names = reader.nullable_strings(True)
        subscribed_topic_regex = reader.nullable_string(True) if version >= 1 else None
        server_assignor = reader.nullable_string(True)
        topic_partitions = reader.nullable_array(TopicPartitions.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(
            group_id, member_id, member_epoch, instance_id, rack_id, rebalance_timeout_ms, subscribed_topic_names,
            subscribed_topic_regex, server_assignor, topic_partitions,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, True)
        writer.string(self.member_id, True)
        writer.int32(self.member_epoch)
        writer.nullable_string(self.instance_id, True)
        writer.nullable_string(self.rack_id, True)
        writer.int32(self.rebalance_timeout_ms)
        writer.nullable_strings(self.subscribed_topic_names, True)
        if version >= 1:
            writer.nullable_string(self.subscribed_topic_regex, True)
        elif self.subscribed_topic_regex is not None:
            raise unsayable("ConsumerGroupHeartbeatRequest.subscribed_topic_regex", version)
        writer.nullable_string(self.server_assignor, True)
        writer.nullable_array(self.topic_partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_partitions = reader.array(TopicPartitions.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(topic_partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topic_partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse:
    API_KEY: ClassVar[int] = 68
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        member_id = reader.nullable_string(True)
        member_epoch, heartbeat_interval_ms = reader.unpack(_ii)
        assignment = Assignment.decode(reader, version) if reader.int8() >= 0 else None
        reader.skip_tagged_fields()
        return cls(
            throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, assignment,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.nullable_string(self.member_id, True)
        writer.pack(_ii, self.member_epoch, self.heartbeat_interval_ms)
        if self.assignment is None:
            writer.int8(-1)
        else:
            writer.int8(1)
            self.assignment.encode(writer, version)
        writer.no_tagged_fields()
