# Generated from schemas/create_acls.schema by tools/generate_messages.py; do not edit.
"""CreateAcls: add access rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_bb = Struct(">bb")


@dataclass(slots=True)
class AclCreation:
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        resource_pattern_type = reader.int8()
        principal = reader.string(compact)
        host = reader.string(compact)
        operation, permission_type = reader.unpack(_bb)
        if compact:
            reader.skip_tagged_fields()
        return cls(resource_type, resource_name, resource_pattern_type, principal, host, operation, permission_type)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        writer.int8(self.resource_pattern_type)
        writer.string(self.principal, compact)
        writer.string(self.host, compact)
        writer.pack(_bb, self.operation, self.permission_type)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreateAclsRequest:
    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    creations: list[AclCreation] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        creations = reader.array(AclCreation.decode, version, compact, 8)
        if compact:
            reader.skip_tagged_fields()
        return cls(creations)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.array(self.creations, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AclCreationResult:
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class CreateAclsResponse:
    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        results = reader.array(AclCreationResult.decode, version, compact, 4)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
