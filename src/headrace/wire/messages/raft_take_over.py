# Generated from schemas/raft_take_over.schema by tools/generate_messages.py; do not edit.
"""RaftTakeOver: the leader asks a voter to stand for election at once. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class RaftTakeOverRequest:
    API_KEY: ClassVar[int] = 20006
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    target: int = 0
    cluster_id: str = ""  # empty until the cluster has a name
    source: int = 0
    directory: bytes = b""
    term: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        target = reader.int32()
        cluster_id = reader.string(True)
        source = reader.int32()
        directory = reader.blob(True)
        term = reader.int32()
        reader.skip_tagged_fields()
        return cls(target, cluster_id, source, directory, term)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.target)
        writer.string(self.cluster_id, True)
        writer.int32(self.source)
        writer.blob(self.directory, True)
        writer.int32(self.term)
        writer.no_tagged_fields()


@dataclass(slots=True)
class RaftTakeOverResponse:
    API_KEY: ClassVar[int] = 20006
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        reader.skip_tagged_fields()
        return cls(error_code)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.no_tagged_fields()
