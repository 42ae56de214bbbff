# Generated from schemas/list_groups.schema by tools/generate_messages.py; do not edit.
"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable


@dataclass(slots=True)
class ListGroupsRequest:
    API_KEY: ClassVar[int] = 16
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        states_filter = reader.strings(compact) if version >= 4 else []
        types_filter = reader.strings(compact) if version >= 5 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(states_filter, types_filter)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version >= 4:
            writer.strings(self.states_filter, compact)
        elif self.states_filter:
            raise unsayable("ListGroupsRequest.states_filter", version)
        if version >= 5:
            writer.strings(self.types_filter, compact)
        elif self.types_filter:
            raise unsayable("ListGroupsRequest.types_filter", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        group_id = reader.string(compact)
        protocol_type = reader.string(compact)
        group_state = reader.string(compact) if version >= 4 else ""
        group_type = reader.string(compact) if version >= 5 else ""
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, protocol_type, group_state, group_type)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.group_id, compact)
        writer.string(self.protocol_type, compact)
        if version >= 4:
            writer.string(self.group_state, compact)
        if version >= 5:
            writer.string(self.group_type, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ListGroupsResponse:
    API_KEY: ClassVar[int] = 16
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms = reader.int32() if version >= 1 else 0
        error_code = reader.int16()
        groups = reader.array(ListedGroup.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, groups)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        writer.array(self.groups, version, compact)
        if compact:
            writer.no_tagged_fields()
