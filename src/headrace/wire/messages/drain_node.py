# Generated from schemas/drain_node.schema by tools/generate_messages.py; do not edit.
"""DrainNode: a node gets nothing new and leads nothing that others can lead; or, later, it takes its part again."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_it = Struct(">i?")


@dataclass(slots=True)
class DrainNodeRequest:
    API_KEY: ClassVar[int] = 20008
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    is_draining: bool = True

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id, is_draining = reader.unpack(_it)
        reader.skip_tagged_fields()
        return cls(node_id, is_draining)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_it, self.node_id, self.is_draining)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DrainNodeResponse:
    API_KEY: ClassVar[int] = 20008
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()
