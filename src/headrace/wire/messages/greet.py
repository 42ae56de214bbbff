# Generated from schemas/greet.schema by tools/generate_messages.py; do not edit.
"""Greet: who listens there, and does it know of a cluster? Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class GreetRequest:
    API_KEY: ClassVar[int] = 20010
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        reader.skip_tagged_fields()
        return cls()

    def encode(self, writer: Writer, version: int) -> None:
        writer.no_tagged_fields()


@dataclass(slots=True)
class GreetResponse:
    API_KEY: ClassVar[int] = 20010
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    cluster_id: str = ""  # empty: none that it knows of
    has_log: bool = False  # it has taken part in deciding something
    voters: list[int] = field(default_factory=list)  # with whom it was told to found one

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        cluster_id = reader.string(True)
        has_log = reader.boolean()
        voters = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(node_id, cluster_id, has_log, voters)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.string(self.cluster_id, True)
        writer.boolean(self.has_log)
        writer.numbers("i", self.voters, True)
        writer.no_tagged_fields()
