# Generated from schemas/leave_group.schema by tools/generate_messages.py; do not edit.
"""LeaveGroup: members depart from a classic group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable


@dataclass(slots=True)
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact)
        reason = reader.nullable_string(compact) if version >= 5 else None
        if compact:
            reader.skip_tagged_fields()
        return cls(member_id, group_instance_id, reason)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.member_id, compact)
        writer.nullable_string(self.group_instance_id, compact)
        if version >= 5:
            writer.nullable_string(self.reason, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class LeaveGroupRequest:
    API_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        group_id = reader.string(compact)
        member_id = reader.string(compact) if version <= 2 else ""
        members = reader.array(MemberIdentity.decode, version, compact, 3) if version >= 3 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, member_id, members)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.group_id, compact)
        if version <= 2:
            writer.string(self.member_id, compact)
        elif self.member_id != "":
            raise unsayable("LeaveGroupRequest.member_id", version)
        if version >= 3:
            writer.array(self.members, version, compact)
        elif self.members:
            raise unsayable("LeaveGroupRequest.members", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact)
        error_code = reader.int16()
        if compact:
            reader.skip_tagged_fields()
        return cls(member_id, group_instance_id, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.member_id, compact)
        writer.nullable_string(self.group_instance_id, compact)
        writer.int16(self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class LeaveGroupResponse:
    API_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32() if version >= 1 else 0
        error_code = reader.int16()
        members = reader.array(MemberResponse.decode, version, compact, 5) if version >= 3 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, members)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if version >= 3:
            writer.array(self.members, version, compact)
        elif self.members:
            raise unsayable("LeaveGroupResponse.members", version)
        if compact:
            writer.no_tagged_fields()
