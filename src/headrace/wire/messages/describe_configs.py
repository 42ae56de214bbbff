# Generated from schemas/describe_configs.schema by tools/generate_messages.py; do not edit.
"""DescribeConfigs: settings of topics (2), brokers (4), broker loggers (8) and groups (32), with their source."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_tbt = Struct(">?b?")


@dataclass(slots=True)
class DescribeConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        configuration_keys = reader.nullable_strings(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(resource_type, resource_name, configuration_keys)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        writer.nullable_strings(self.configuration_keys, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeConfigsRequest:
    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[tuple[int, int]] = (1, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        resources = reader.array(DescribeConfigsResource.decode, version, compact, 4)
        include_synonyms = reader.boolean()
        include_documentation = reader.boolean() if version >= 3 else False
        if compact:
            reader.skip_tagged_fields()
        return cls(resources, include_synonyms, include_documentation)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.array(self.resources, version, compact)
        writer.boolean(self.include_synonyms)
        if version >= 3:
            writer.boolean(self.include_documentation)
        elif self.include_documentation:
            raise unsayable("DescribeConfigsRequest.include_documentation", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeConfigsSynonym:
    name: str = ""
    value: str | None = ""
    source: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        name = reader.string(compact)
        value = reader.nullable_string(compact)
        source = reader.int8()
        if compact:
            reader.skip_tagged_fields()
        return cls(name, value, source)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.name, compact)
        writer.nullable_string(self.value, compact)
        writer.int8(self.source)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0
    documentation: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        name = reader.string(compact)
        value = reader.nullable_string(compact)
        read_only, config_source, is_sensitive = reader.unpack(_tbt)
        synonyms = reader.array(DescribeConfigsSynonym.decode, version, compact, 4)
        config_type = reader.int8() if version >= 3 else 0
        documentation = reader.nullable_string(compact) if version >= 3 else ""
        if compact:
            reader.skip_tagged_fields()
        return cls(name, value, read_only, config_source, is_sensitive, synonyms, config_type, documentation)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.string(self.name, compact)
        writer.nullable_string(self.value, compact)
        writer.pack(_tbt, self.read_only, self.config_source, self.is_sensitive)
        writer.array(self.synonyms, version, compact)
        if version >= 3:
            writer.int8(self.config_type)
        if version >= 3:
            writer.nullable_string(self.documentation, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeConfigsResult:
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        configs = reader.array(DescribeConfigsResourceResult.decode, version, compact, 9)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message, resource_type, resource_name, configs)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        writer.array(self.configs, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeConfigsResponse:
    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[tuple[int, int]] = (1, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 4
        throttle_time_ms = reader.int32()
        results = reader.array(DescribeConfigsResult.decode, version, compact, 7)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 4
        writer.int32(self.throttle_time_ms)
        writer.array(self.results, version, compact)
        if compact:
            writer.no_tagged_fields()
