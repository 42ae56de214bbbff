# Generated from schemas/sync_group.schema by tools/generate_messages.py; do not edit.
"""SyncGroup: the leader hands in the assignment, every member receives its share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        member_id = reader.string(compact)
        assignment = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(member_id, assignment)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.member_id, compact)
        writer.blob(self.assignment, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class SyncGroupRequest:
    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        group_id = reader.string(compact)
        generation_id = reader.int32()
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 3 else None
        protocol_type = reader.nullable_string(compact) if version >= 5 else None
        protocol_name = reader.nullable_string(compact) if version >= 5 else None
        assignments = reader.array(SyncGroupRequestAssignment.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, assignments)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.group_id, compact)
        writer.int32(self.generation_id)
        writer.string(self.member_id, compact)
        if version >= 3:
            writer.nullable_string(self.group_instance_id, compact)
        elif self.group_instance_id is not None:
            raise unsayable("SyncGroupRequest.group_instance_id", version)
        if version >= 5:
            writer.nullable_string(self.protocol_type, compact)
        if version >= 5:
            writer.nullable_string(self.protocol_name, compact)
        writer.array(self.assignments, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class SyncGroupResponse:
    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32() if version >= 1 else 0
        error_code = reader.int16()
        protocol_type = reader.nullable_string(compact) if version >= 5 else None
        protocol_name = reader.nullable_string(compact) if version >= 5 else None
        assignment = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, protocol_type, protocol_name, assignment)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if version >= 5:
            writer.nullable_string(self.protocol_type, compact)
        if version >= 5:
            writer.nullable_string(self.protocol_name, compact)
        writer.blob(self.assignment, compact)
        if compact:
            writer.no_tagged_fields()
