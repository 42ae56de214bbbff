# Generated from schemas/delete_acls.schema by tools/generate_messages.py; do not edit.
"""DeleteAcls: remove the access rules that match filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_bb = Struct(">bb")


@dataclass(slots=True)
class DeleteAclsFilter:
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        resource_type_filter = reader.int8()
        resource_name_filter = reader.nullable_string(compact)
        pattern_type_filter = reader.int8()
        principal_filter = reader.nullable_string(compact)
        host_filter = reader.nullable_string(compact)
        operation, permission_type = reader.unpack(_bb)
        if compact:
            reader.skip_tagged_fields()
        return cls(
            resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation,
            permission_type,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int8(self.resource_type_filter)
        writer.nullable_string(self.resource_name_filter, compact)
        writer.int8(self.pattern_type_filter)
        writer.nullable_string(self.principal_filter, compact)
        writer.nullable_string(self.host_filter, compact)
        writer.pack(_bb, self.operation, self.permission_type)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteAclsRequest:
    API_KEY: ClassVar[int] = 31
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    filters: list[DeleteAclsFilter] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        filters = reader.array(DeleteAclsFilter.decode, version, compact, 8)
        if compact:
            reader.skip_tagged_fields()
        return cls(filters)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.array(self.filters, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteAclsMatchingAcl:
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        pattern_type = reader.int8()
        principal = reader.string(compact)
        host = reader.string(compact)
        operation, permission_type = reader.unpack(_bb)
        if compact:
            reader.skip_tagged_fields()
        return cls(
            error_code, error_message, resource_type, resource_name, pattern_type, principal, host, operation,
            permission_type,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        writer.int8(self.pattern_type)
        writer.string(self.principal, compact)
        writer.string(self.host, compact)
        writer.pack(_bb, self.operation, self.permission_type)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteAclsFilterResult:
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        matching_acls = reader.array(DeleteAclsMatchingAcl.decode, version, compact, 11)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message, matching_acls)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.array(self.matching_acls, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DeleteAclsResponse:
    API_KEY: ClassVar[int] = 31
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        filter_results = reader.array(DeleteAclsFilterResult.decode, version, compact, 5)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, filter_results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.array(self.filter_results, version, compact)
        if compact:
            writer.no_tagged_fields()
