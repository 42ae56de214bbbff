# Generated from schemas/sasl_handshake.schema by tools/generate_messages.py; do not edit.
"""SaslHandshake: choose a way to authenticate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class SaslHandshakeRequest:
    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    mechanism: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        mechanism = reader.string()
        return cls(mechanism)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.mechanism)


@dataclass(slots=True)
class SaslHandshakeResponse:
    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        mechanisms = reader.strings()
        return cls(error_code, mechanisms)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.strings(self.mechanisms)
