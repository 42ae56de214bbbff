# Generated from schemas/alter_client_quotas.schema by tools/generate_messages.py; do not edit.
"""AlterClientQuotas: set and remove quotas."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_dt = Struct(">d?")


@dataclass(slots=True)
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entity_type = reader.string(compact)
        entity_name = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(entity_type, entity_name)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.entity_type, compact)
        writer.nullable_string(self.entity_name, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class OpData:
    key: str = ""
    value: float = 0.0
    remove: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        key = reader.string(compact)
        value, remove = reader.unpack(_dt)
        if compact:
            reader.skip_tagged_fields()
        return cls(key, value, remove)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.key, compact)
        writer.pack(_dt, self.value, self.remove)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entity = reader.array(EntityData.decode, version, compact, 3)
        ops = reader.array(OpData.decode, version, compact, 11)
        if compact:
            reader.skip_tagged_fields()
        return cls(entity, ops)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.array(self.entity, version, compact)
        writer.array(self.ops, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterClientQuotasRequest:
    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entries = reader.array(EntryData.decode, version, compact, 3)
        validate_only = reader.boolean()
        if compact:
            reader.skip_tagged_fields()
        return cls(entries, validate_only)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.array(self.entries, version, compact)
        writer.boolean(self.validate_only)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EntityResult:
    entity_type: str = ""
    entity_name: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entity_type = reader.string(compact)
        entity_name = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(entity_type, entity_name)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.entity_type, compact)
        writer.nullable_string(self.entity_name, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EntryResult:
    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        entity = reader.array(EntityResult.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message, entity)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.array(self.entity, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterClientQuotasResponse:
    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0
    entries: list[EntryResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        throttle_time_ms = reader.int32()
        entries = reader.array(EntryResult.decode, version, compact, 5)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, entries)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.int32(self.throttle_time_ms)
        writer.array(self.entries, version, compact)
        if compact:
            writer.no_tagged_fields()
