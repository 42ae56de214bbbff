# Generated from schemas/sasl_authenticate.schema by tools/generate_messages.py; do not edit.
"""SaslAuthenticate: one step of the authentication that SaslHandshake chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class SaslAuthenticateRequest:
    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    auth_bytes: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        auth_bytes = reader.blob(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(auth_bytes)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.blob(self.auth_bytes, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class SaslAuthenticateResponse:
    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        error_code = reader.int16()
        error_message = reader.nullable_string(compact)
        auth_bytes = reader.blob(compact)
        session_lifetime_ms = reader.int64() if version >= 1 else 0
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, error_message, auth_bytes, session_lifetime_ms)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, compact)
        writer.blob(self.auth_bytes, compact)
        if version >= 1:
            writer.int64(self.session_lifetime_ms)
        if compact:
            writer.no_tagged_fields()
