# Generated from schemas/unregister_broker.schema by tools/generate_messages.py; do not edit.
"""UnregisterBroker: forget a broker that will not come back."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")


@dataclass(slots=True)
class UnregisterBrokerRequest:
    API_KEY: ClassVar[int] = 64
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id = reader.int32()
        reader.skip_tagged_fields()
        return cls(broker_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.broker_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class UnregisterBrokerResponse:
    API_KEY: ClassVar[int] = 64
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()
