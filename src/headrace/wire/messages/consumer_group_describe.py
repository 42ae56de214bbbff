# Generated from schemas/consumer_group_describe.schema by tools/generate_messages.py; do not edit.
"""ConsumerGroupDescribe: state and members of groups of the newer protocol (KIP-848)."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_ii = Struct(">ii")


@dataclass(slots=True)
class ConsumerGroupDescribeRequest:
    API_KEY: ClassVar[int] = 69
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        group_ids = reader.strings(True)
        include_authorized_operations = reader.boolean()
        reader.skip_tagged_fields()
        return cls(group_ids, include_authorized_operations)

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.group_ids, True)
        writer.boolean(self.include_authorized_operations)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicPartitions:
    topic_id: TopicId = NO_TOPIC_ID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        topic_name = reader.string(True)
        partitions = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(topic_id, topic_name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.string(self.topic_name, True)
        writer.numbers("i", self.partitions, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_partitions = reader.array(TopicPartitions.decode, version, True, 19)
        reader.skip_tagged_fields()
        return cls(topic_partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topic_partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Member:
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        member_id = reader.string(True)
        instance_id = reader.nullable_string(True)
        rack_id = reader.nullable_string(True)
        member_epoch = reader.int32()
        client_id = reader.string(True)
        client_host = reader.string(True)
        subscribed_topic_names = reader.strings(True)
        subscribed_topic_regex = reader.nullable_string(True)
        assignment = Assignment.decode(reader, version)
        target_assignment = Assignment.decode(reader, version)
        member_type = reader.int8() if version >= 1 else -1
        reader.skip_tagged_fields()
        return cls(
            member_id, instance_id, rack_id, member_epoch, client_id, client_host, subscribed_topic_names,
            subscribed_topic_regex, assignment, target_assignment, member_type,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.member_id, True)
        writer.nullable_string(self.instance_id, True)
        writer.nullable_string(self.rack_id, True)
        writer.int32(self.member_epoch)
        writer.string(self.client_id, True)
        writer.string(self.client_host, True)
        writer.strings(self.subscribed_topic_names, True)
        writer.nullable_string(self.subscribed_topic_regex, True)
        self.assignment.encode(writer, version)
        self.target_assignment.encode(writer, version)
        if version >= 1:
            writer.int8(self.member_type)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        group_id = reader.string(True)
        group_state = reader.string(True)
        group_epoch, assignment_epoch = reader.unpack(_ii)
        assignor_name = reader.string(True)
        members = reader.array(Member.decode, version, True, 16)
        authorized_operations = reader.int32()
        reader.skip_tagged_fields()
        return cls(
            error_code, error_message, group_id, group_state, group_epoch, assignment_epoch, assignor_name, members,
            authorized_operations,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.string(self.group_id, True)
        writer.string(self.group_state, True)
        writer.pack(_ii, self.group_epoch, self.assignment_epoch)
        writer.string(self.assignor_name, True)
        writer.array(self.members, version, True)
        writer.int32(self.authorized_operations)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConsumerGroupDescribeResponse:
    API_KEY: ClassVar[int] = 69
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        groups = reader.array(DescribedGroup.decode, version, True, 20)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, groups)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.array(self.groups, version, True)
        writer.no_tagged_fields()
