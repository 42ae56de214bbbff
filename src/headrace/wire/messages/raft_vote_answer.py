# Generated from schemas/raft_vote_answer.schema by tools/generate_messages.py; do not edit.
"""RaftVoteAnswer: whether a voter votes, or would. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_itt = Struct(">i??")
_ii = Struct(">ii")


@dataclass(slots=True)
class RaftVoteAnswerRequest:
    API_KEY: ClassVar[int] = 20002
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    target: int = 0
    source: int = 0
    directory: bytes = b""
    term: int = 0
    is_granted: bool = False
    is_rehearsal: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        target, source = reader.unpack(_ii)
        directory = reader.blob(True)
        term, is_granted, is_rehearsal = reader.unpack(_itt)
        reader.skip_tagged_fields()
        return cls(target, source, directory, term, is_granted, is_rehearsal)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ii, self.target, self.source)
        writer.blob(self.directory, True)
        writer.pack(_itt, self.term, self.is_granted, self.is_rehearsal)
        writer.no_tagged_fields()


@dataclass(slots=True)
class RaftVoteAnswerResponse:
    API_KEY: ClassVar[int] = 20002
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
