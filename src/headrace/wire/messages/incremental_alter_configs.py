# Generated from schemas/incremental_alter_configs.schema by tools/generate_messages.py; do not edit.
"""IncrementalAlterConfigs: change single settings: 0 set, 1 delete, 2 append, 3 subtract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class AlterableConfig:
    name: str = ""
    config_operation: int = 0
    value: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        name = reader.string(compact)
        config_operation = reader.int8()
        value = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, config_operation, value)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.name, compact)
        writer.int8(self.config_operation)
        writer.nullable_string(self.value, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        configs = reader.array(AlterableConfig.decode, version, compact, 4)
        if compact:
            reader.skip_tagged_fields()
        return cls(resource_type, resource_name, configs)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        writer.array(self.configs, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class IncrementalAlterConfigsRequest:
    API_KEY: ClassVar[int] = 44
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        resources = reader.array(AlterConfigsResource.decode, version, compact, 4)
        validate_only = reader.boolean()
        if compact:
            reader.skip_tagged_fields()
        return cls(resources, validate_only)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.array(self.resources, version, compact)
        writer.boolean(self.validate_only)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        resource_type = reader.int8()
        resource_name = reader.string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message, resource_type, resource_name)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.int8(self.resource_type)
        writer.string(self.resource_name, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class IncrementalAlterConfigsResponse:
    API_KEY: ClassVar[int] = 44
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        throttle_time_ms = reader.int32()
        responses = reader.array(AlterConfigsResourceResponse.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, responses)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.int32(self.throttle_time_ms)
        writer.array(self.responses, version, compact)
        if compact:
            writer.no_tagged_fields()
