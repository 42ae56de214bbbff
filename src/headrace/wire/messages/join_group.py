# Generated from schemas/join_group.schema by tools/generate_messages.py; do not edit.
"""JoinGroup: enter a classic group and wait for the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, required, unsayable

_hi = Struct(">hi")


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    name: str = ""
    metadata: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        name = reader.string(compact)
        metadata = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, metadata)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.string(self.name, compact)
        writer.blob(self.metadata, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class JoinGroupRequest:
    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[tuple[int, int]] = (0, 9)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        group_id = reader.string(compact)
        session_timeout_ms = reader.int32()
        rebalance_timeout_ms = reader.int32() if version >= 1 else -1
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 5 else None
        protocol_type = reader.string(compact)
        protocols = reader.array(JoinGroupRequestProtocol.decode, version, compact, 3)
        reason = reader.nullable_string(compact) if version >= 8 else None
        if compact:
            reader.skip_tagged_fields()
        return cls(
            group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols,
            reason,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.string(self.group_id, compact)
        writer.int32(self.session_timeout_ms)
        if version >= 1:
            writer.int32(self.rebalance_timeout_ms)
        writer.string(self.member_id, compact)
        if version >= 5:
            writer.nullable_string(self.group_instance_id, compact)
        elif self.group_instance_id is not None:
            raise unsayable("JoinGroupRequest.group_instance_id", version)
        writer.string(self.protocol_type, compact)
        writer.array(self.protocols, version, compact)
        if version >= 8:
            writer.nullable_string(self.reason, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class JoinGroupResponseMember:
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 5 else None
        metadata = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(member_id, group_instance_id, metadata)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        writer.string(self.member_id, compact)
        if version >= 5:
            writer.nullable_string(self.group_instance_id, compact)
        writer.blob(self.metadata, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class JoinGroupResponse:
    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[tuple[int, int]] = (0, 9)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 6
        throttle_time_ms = reader.int32() if version >= 2 else 0
        error_code, generation_id = reader.unpack(_hi)
        protocol_type = reader.nullable_string(compact) if version >= 7 else None
        protocol_name = reader.nullable_string(compact) if version >= 7 else reader.string(compact)
        leader = reader.string(compact)
        skip_assignment = reader.boolean() if version >= 9 else False
        member_id = reader.string(compact)
        members = reader.array(JoinGroupResponseMember.decode, version, compact, 4)
        if compact:
            reader.skip_tagged_fields()
        return cls(
            throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment,
            member_id, members,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 6
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.pack(_hi, self.error_code, self.generation_id)
        if version >= 7:
            writer.nullable_string(self.protocol_type, compact)
        if version >= 7:
            writer.nullable_string(self.protocol_name, compact)
        else:
            writer.string(required(self.protocol_name, "JoinGroupResponse.protocol_name", version), compact)
        writer.string(self.leader, compact)
        if version >= 9:
            writer.boolean(self.skip_assignment)
        elif self.skip_assignment:
            raise unsayable("JoinGroupResponse.skip_assignment", version)
        writer.string(self.member_id, compact)
        writer.array(self.members, version, compact)
        if compact:
            writer.no_tagged_fields()
