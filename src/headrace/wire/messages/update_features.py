# Generated from schemas/update_features.schema by tools/generate_messages.py; do not edit.
"""UpdateFeatures: raise or lower the finalised version of a feature."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class FeatureUpdateKey:
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        feature = reader.string(True)
        max_version_level = reader.int16()
        allow_downgrade = reader.boolean() if version <= 0 else False
        upgrade_type = reader.int8() if version >= 1 else 1
        reader.skip_tagged_fields()
        return cls(feature, max_version_level, allow_downgrade, upgrade_type)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.feature, True)
        writer.int16(self.max_version_level)
        if version <= 0:
            writer.boolean(self.allow_downgrade)
        elif self.allow_downgrade:
            raise unsayable("FeatureUpdateKey.allow_downgrade", version)
        if version >= 1:
            writer.int8(self.upgrade_type)
        elif self.upgrade_type != 1:
            raise unsayable("FeatureUpdateKey.upgrade_type", version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class UpdateFeaturesRequest:
    API_KEY: ClassVar[int] = 57
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        timeout_ms = reader.int32()
        feature_updates = reader.array(FeatureUpdateKey.decode, version, True, 5)
        validate_only = reader.boolean() if version >= 1 else False
        reader.skip_tagged_fields()
        return cls(timeout_ms, feature_updates, validate_only)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms)
        writer.array(self.feature_updates, version, True)
        if version >= 1:
            writer.boolean(self.validate_only)
        elif self.validate_only:
            raise unsayable("UpdateFeaturesRequest.validate_only", version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class UpdatableFeatureResult:
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        feature = reader.string(True)
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(feature, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.feature, True)
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class UpdateFeaturesResponse:
    API_KEY: ClassVar[int] = 57
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        results = reader.array(UpdatableFeatureResult.decode, version, True, 5) if version <= 1 else []
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message, results)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        if version <= 1:
            writer.array(self.results, version, True)
        writer.no_tagged_fields()
