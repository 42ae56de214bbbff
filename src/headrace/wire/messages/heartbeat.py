# Generated from schemas/heartbeat.schema by tools/generate_messages.py; do not edit.
"""Heartbeat: a member of a classic group is still alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable


@dataclass(slots=True)
class HeartbeatRequest:
    API_KEY: ClassVar[int] = 12
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        group_id = reader.string(compact)
        generation_id = reader.int32()
        member_id = reader.string(compact)
        group_instance_id = reader.nullable_string(compact) if version >= 3 else None
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, generation_id, member_id, group_instance_id)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.group_id, compact)
        writer.int32(self.generation_id)
        writer.string(self.member_id, compact)
        if version >= 3:
            writer.nullable_string(self.group_instance_id, compact)
        elif self.group_instance_id is not None:
            raise unsayable("HeartbeatRequest.group_instance_id", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class HeartbeatResponse:
    API_KEY: ClassVar[int] = 12
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32() if version >= 1 else 0
        error_code = reader.int16()
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if compact:
            writer.no_tagged_fields()
