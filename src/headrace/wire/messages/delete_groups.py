# Generated from schemas/delete_groups.schema by tools/generate_messages.py; do not edit.
"""DeleteGroups: forget empty groups and their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class DeleteGroupsRequest:
    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    groups_names: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        groups_names = reader.strings(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(groups_names)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.strings(self.groups_names, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = ""
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        group_id = reader.string(compact)
        error_code = reader.int16()
        if compact:
            reader.skip_tagged_fields()
        return cls(group_id, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.group_id, compact)
        writer.int16(self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteGroupsResponse:
    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        results = reader.array(DeletableGroupResult.decode, version, compact, 4)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
