# Generated from schemas/describe_groups.schema by tools/generate_messages.py; do not edit.
"""DescribeGroups: state and members of classic groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable


@dataclass(slots=True)
class DescribeGroupsRequest:
    API_KEY: ClassVar[int] = 15
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        groups = reader.strings(compact)
        include_authorized_operations = reader.boolean() if version >= 3 else False
        if compact:
            reader.skip_tagged_fields()
        return cls(groups, include_authorized_operations)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.strings(self.groups, compact)
        if version >= 3:
            writer.boolean(self.include_authorized_operations)
        elif self.include_authorized_operations:
            raise unsayable("DescribeGroupsRequest.include_authorized_operations", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 4 else None
        client_id = reader.string(compact)
        client_host = reader.string(compact)
        member_metadata = reader.blob(compact)
        member_assignment = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(member_id, group_instance_id, client_id, client_host, member_metadata, member_assignment)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.string(self.member_id, compact)
        if version >= 4:
            writer.nullable_string(self.group_instance_id, compact)
        writer.string(self.client_id, compact)
        writer.string(self.client_host, compact)
        writer.blob(self.member_metadata, compact)
        writer.blob(self.member_assignment, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        error_code = reader.int16()
        error_message = reader.nullable_string(compact) if version >= 6 else None
        group_id = reader.string(compact)
        group_state = reader.string(compact)
        protocol_type = reader.string(compact)
        protocol_data = reader.string(compact)
        members = reader.array(DescribedGroupMember.decode, version, compact, 7)
        authorized_operations = reader.int32() if version >= 3 else -2147483648
        if compact:
            reader.skip_tagged_fields()
        return cls(
            error_code, error_message, group_id, group_state, protocol_type, protocol_data, members,
            authorized_operations,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        writer.int16(self.error_code)
        if version >= 6:
            writer.nullable_string(self.error_message, compact)
        elif self.error_message is not None:
            raise unsayable("DescribedGroup.error_message", version)
        writer.string(self.group_id, compact)
        writer.string(self.group_state, compact)
        writer.string(self.protocol_type, compact)
        writer.string(self.protocol_data, compact)
        writer.array(self.members, version, compact)
        if version >= 3:
            writer.int32(self.authorized_operations)
        elif self.authorized_operations != -2147483648:
            raise unsayable("DescribedGroup.authorized_operations", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeGroupsResponse:
    API_KEY: ClassVar[int] = 15
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 5
        throttle_time_ms = reader.int32() if version >= 1 else 0
        groups = reader.array(DescribedGroup.decode, version, compact, 12)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, groups)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 5
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.array(self.groups, version, compact)
        if compact:
            writer.no_tagged_fields()
