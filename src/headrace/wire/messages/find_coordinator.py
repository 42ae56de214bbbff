# Generated from schemas/find_coordinator.schema by tools/generate_messages.py; do not edit.
"""FindCoordinator: which broker looks after a group (0), a transactional id (1) or a share group (2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class FindCoordinatorRequest:
    API_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        key = reader.string(compact) if version <= 3 else ""
        key_type = reader.int8() if version >= 1 else 0
        coordinator_keys = reader.strings(compact) if version >= 4 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(key, key_type, coordinator_keys)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version <= 3:
            writer.string(self.key, compact)
        elif self.key != "":
            raise unsayable("FindCoordinatorRequest.key", version)
        if version >= 1:
            writer.int8(self.key_type)
        elif self.key_type != 0:
            raise unsayable("FindCoordinatorRequest.key_type", version)
        if version >= 4:
            writer.strings(self.coordinator_keys, compact)
        elif self.coordinator_keys:
            raise unsayable("FindCoordinatorRequest.coordinator_keys", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class Coordinator:
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        key = reader.string(True)
        node_id = reader.int32()
        host = reader.string(True)
        port, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(key, node_id, host, port, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.key, True)
        writer.int32(self.node_id)
        writer.string(self.host, True)
        writer.pack(_ih, self.port, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class FindCoordinatorResponse:
    API_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms = reader.int32() if version >= 1 else 0
        error_code = reader.int16() if version <= 3 else 0
        error_message = reader.nullable_string(compact) if 1 <= version <= 3 else ""
        node_id = reader.int32() if version <= 3 else 0
        host = reader.string(compact) if version <= 3 else ""
        port = reader.int32() if version <= 3 else 0
        coordinators = reader.array(Coordinator.decode, version, compact, 14) if version >= 4 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message, node_id, host, port, coordinators)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if version <= 3:
            writer.int16(self.error_code)
        elif self.error_code != 0:
            raise unsayable("FindCoordinatorResponse.error_code", version)
        if 1 <= version <= 3:
            writer.nullable_string(self.error_message, compact)
        if version <= 3:
            writer.int32(self.node_id)
        elif self.node_id != 0:
            raise unsayable("FindCoordinatorResponse.node_id", version)
        if version <= 3:
            writer.string(self.host, compact)
        elif self.host != "":
            raise unsayable("FindCoordinatorResponse.host", version)
        if version <= 3:
            writer.int32(self.port)
        elif self.port != 0:
            raise unsayable("FindCoordinatorResponse.port", version)
        if version >= 4:
            writer.array(self.coordinators, version, compact)
        elif self.coordinators:
            raise unsayable("FindCoordinatorResponse.coordinators", version)
        if compact:
            writer.no_tagged_fields()
