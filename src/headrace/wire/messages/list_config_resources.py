# Generated from schemas/list_config_resources.schema by tools/generate_messages.py; do not edit.
"""ListConfigResources: the names of things that can have settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class ListConfigResourcesRequest:
    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    resource_types: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        resource_types = reader.numbers("b", True) if version >= 1 else []
        reader.skip_tagged_fields()
        return cls(resource_types)

    def encode(self, writer: Writer, version: int) -> None:
        if version >= 1:
            writer.numbers("b", self.resource_types, True)
        elif self.resource_types:
            raise unsayable("ListConfigResourcesRequest.resource_types", version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ConfigResource:
    resource_name: str = ""
    resource_type: int = 16

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        resource_name = reader.string(True)
        resource_type = reader.int8() if version >= 1 else 16
        reader.skip_tagged_fields()
        return cls(resource_name, resource_type)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.resource_name, True)
        if version >= 1:
            writer.int8(self.resource_type)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ListConfigResourcesResponse:
    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        config_resources = reader.array(ConfigResource.decode, version, True, 2)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, config_resources)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.array(self.config_resources, version, True)
        writer.no_tagged_fields()
