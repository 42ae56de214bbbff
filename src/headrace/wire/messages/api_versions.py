# Generated from schemas/api_versions.schema by tools/generate_messages.py; do not edit.
"""ApiVersions: what this broker can speak; the first request on most connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_hh = Struct(">hh")
_hhh = Struct(">hhh")


@dataclass(slots=True)
class ApiVersionsRequest:
    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    client_software_name: str = ""
    client_software_version: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        client_software_name = reader.string(compact) if version >= 3 else ""
        client_software_version = reader.string(compact) if version >= 3 else ""
        if compact:
            reader.skip_tagged_fields()
        return cls(client_software_name, client_software_version)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version >= 3:
            writer.string(self.client_software_name, compact)
        if version >= 3:
            writer.string(self.client_software_version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ApiVersion:
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        api_key, min_version, max_version = reader.unpack(_hhh)
        if compact:
            reader.skip_tagged_fields()
        return cls(api_key, min_version, max_version)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_hhh, self.api_key, self.min_version, self.max_version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class SupportedFeatureKey:
    name: str = ""
    min_version: int = 0
    max_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        min_version, max_version = reader.unpack(_hh)
        reader.skip_tagged_fields()
        return cls(name, min_version, max_version)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.pack(_hh, self.min_version, self.max_version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        max_version_level, min_version_level = reader.unpack(_hh)
        reader.skip_tagged_fields()
        return cls(name, max_version_level, min_version_level)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.pack(_hh, self.max_version_level, self.min_version_level)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ApiVersionsResponse:
    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        error_code = reader.int16()
        api_keys = reader.array(ApiVersion.decode, version, compact, 6)
        throttle_time_ms = reader.int32() if version >= 1 else 0
        supported_features: list[SupportedFeatureKey] = []
        finalized_features_epoch: int = -1
        finalized_features: list[FinalizedFeatureKey] = []
        zk_migration_ready: bool = False
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0:
                    supported_features = reader.array(SupportedFeatureKey.decode, version, True, 6)
                elif tag == 1:
                    finalized_features_epoch = reader.int64()
                elif tag == 2:
                    finalized_features = reader.array(FinalizedFeatureKey.decode, version, True, 6)
                elif tag == 3:
                    zk_migration_ready = reader.boolean()
        return cls(
            error_code, api_keys, throttle_time_ms, supported_features, finalized_features_epoch, finalized_features,
            zk_migration_ready,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.int16(self.error_code)
        writer.array(self.api_keys, version, compact)
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.supported_features:
                value = Writer()
                value.array(self.supported_features, version, True)
                tagged.append((0, value))
            if self.finalized_features_epoch != -1:
                value = Writer()
                value.int64(self.finalized_features_epoch)
                tagged.append((1, value))
            if self.finalized_features:
                value = Writer()
                value.array(self.finalized_features, version, True)
                tagged.append((2, value))
            if self.zk_migration_ready:
                value = Writer()
                value.boolean(self.zk_migration_ready)
                tagged.append((3, value))
            writer.tagged_fields(tagged)
