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
    life: int = 0  # how often this disk was started; 0: not said
    incarnation: bytes = b""  # chosen anew on each start

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        target = reader.int32()
        cluster_id = reader.string(True)
        source = reader.int32()
        directory = reader.blob(True)
        term = reader.int32()
        life: int = 0
        incarnation: bytes = b""
        for tag in reader.tagged_fields():
            if tag == 0:
                life = reader.int64()
            elif tag == 1:
                incarnation = reader.blob(True)
        return cls(target, cluster_id, source, directory, term, life, incarnation)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.target)
        writer.string(self.cluster_id, True)
        writer.int32(self.source)
        writer.blob(self.directory, True)
        writer.int32(self.term)
        tagged: list[tuple[int, Writer]] = []
        if self.life != 0:
            value = Writer()
            value.int64(self.life)
            tagged.append((0, value))
        if self.incarnation != b"":
            value = Writer()
            value.blob(self.incarnation, True)
            tagged.append((1, value))
        writer.tagged_fields(tagged)


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
