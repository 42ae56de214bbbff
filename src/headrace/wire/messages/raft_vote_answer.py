# Generated from schemas/raft_vote_answer.schema by tools/generate_messages.py; do not edit.
"""RaftVoteAnswer: whether a voter votes, or would. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_itt = Struct(">i??")


@dataclass(slots=True)
class RaftVoteAnswerRequest:
    API_KEY: ClassVar[int] = 20002
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    target: int = 0
    cluster_id: str = ""  # empty until the cluster has a name
    source: int = 0
    directory: bytes = b""
    term: int = 0
    is_granted: bool = False
    is_pre_vote: bool = False
    life: int = 0  # how often this disk was started; 0: not said
    incarnation: bytes = b""  # chosen anew on each start

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        target = reader.int32()
        cluster_id = reader.string(True)
        source = reader.int32()
        directory = reader.blob(True)
        term, is_granted, is_pre_vote = reader.unpack(_itt)
        life: int = 0
        incarnation: bytes = b""
        for tag in reader.tagged_fields():
            if tag == 0:
                life = reader.int64()
            elif tag == 1:
                incarnation = reader.blob(True)
        return cls(target, cluster_id, source, directory, term, is_granted, is_pre_vote, life, incarnation)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.target)
        writer.string(self.cluster_id, True)
        writer.int32(self.source)
        writer.blob(self.directory, True)
        writer.pack(_itt, self.term, self.is_granted, self.is_pre_vote)
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
