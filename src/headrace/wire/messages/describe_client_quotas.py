# Generated from schemas/describe_client_quotas.schema by tools/generate_messages.py; do not edit.
"""DescribeClientQuotas: the quotas that match a filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")


@dataclass(slots=True)
class ComponentData:
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entity_type = reader.string(compact)
        match_type = reader.int8()
        match = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(entity_type, match_type, match)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.entity_type, compact)
        writer.int8(self.match_type)
        writer.nullable_string(self.match, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeClientQuotasRequest:
    API_KEY: ClassVar[int] = 48
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        components = reader.array(ComponentData.decode, version, compact, 4)
        strict = reader.boolean()
        if compact:
            reader.skip_tagged_fields()
        return cls(components, strict)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.array(self.components, version, compact)
        writer.boolean(self.strict)
        if compact:
            writer.no_tagged_fields()


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
class ValueData:
    key: str = ""
    value: float = 0.0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        key = reader.string(compact)
        value = reader.float64()
        if compact:
            reader.skip_tagged_fields()
        return cls(key, value)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.key, compact)
        writer.float64(self.value)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        entity = reader.array(EntityData.decode, version, compact, 3)
        values = reader.array(ValueData.decode, version, compact, 10)
        if compact:
            reader.skip_tagged_fields()
        return cls(entity, values)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.array(self.entity, version, compact)
        writer.array(self.values, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeClientQuotasResponse:
    API_KEY: ClassVar[int] = 48
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(compact)
        entries = reader.nullable_array(EntryData.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message, entries)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.nullable_array(self.entries, version, compact)
        if compact:
            writer.no_tagged_fields()
