# Generated from schemas/forward.schema by tools/generate_messages.py; do not edit.
"""Forward: a client's request, passed on to the controller by the node that got it. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_hq = Struct(">hq")
_ihh = Struct(">ihh")


@dataclass(slots=True)
class ForwardRequest:
    API_KEY: ClassVar[int] = 20007
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    source: int = 0
    api_key: int = 0
    api_version: int = 0
    client_id: str = ""
    client_host: str = ""
    body: bytes = b""  # the request, without its header

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        source, api_key, api_version = reader.unpack(_ihh)
        client_id = reader.string(True)
        client_host = reader.string(True)
        body = reader.blob(True)
        reader.skip_tagged_fields()
        return cls(source, api_key, api_version, client_id, client_host, body)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ihh, self.source, self.api_key, self.api_version)
        writer.string(self.client_id, True)
        writer.string(self.client_host, True)
        writer.blob(self.body, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ForwardResponse:
    API_KEY: ClassVar[int] = 20007
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    end: int = 0  # of the metadata log: what the answer tells of is in the image once it reaches up to here
    body: bytes | None = b""  # the answer, without its header

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code, end = reader.unpack(_hq)
        body = reader.nullable_blob(True)
        reader.skip_tagged_fields()
        return cls(error_code, end, body)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_hq, self.error_code, self.end)
        writer.nullable_blob(self.body, True)
        writer.no_tagged_fields()
