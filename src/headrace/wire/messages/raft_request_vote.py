# Generated from schemas/raft_request_vote.schema by tools/generate_messages.py; do not edit.
"""RaftRequestVote: a voter stands for election, or asks whether it would win. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_iiqtt = Struct(">iiq??")


@dataclass(slots=True)
class RaftRequestVoteRequest:
    API_KEY: ClassVar[int] = 20001
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    target: int = 0
    cluster_id: str = ""  # empty until the cluster has a name
    source: int = 0
    directory: bytes = b""  # the disk of the source
    term: int = 0
    last_term: int = 0
    end: int = 0
    is_pre_vote: bool = False
    is_transfer: bool = False
    life: int = 0  # how often this disk was started; 0: not said
    incarnation: bytes = b""  # chosen anew on each start

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        target = reader.int32()
        cluster_id = reader.string(True)
        source = reader.int32()
        directory = reader.blob(True)
        term, last_term, end, is_pre_vote, is_transfer = reader.unpack(_iiqtt)
        life: int = 0
        incarnation: bytes = b""
        for tag in reader.tagged_fields():
            if tag == 0:
                life = reader.int64()
            elif tag == 1:
                incarnation = reader.blob(True)
        return cls(
            target, cluster_id, source, directory, term, last_term, end, is_pre_vote, is_transfer, life, incarnation,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.target)
        writer.string(self.cluster_id, True)
        writer.int32(self.source)
        writer.blob(self.directory, True)
        writer.pack(_iiqtt, self.term, self.last_term, self.end, self.is_pre_vote, self.is_transfer)
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
class RaftRequestVoteResponse:
    API_KEY: ClassVar[int] = 20001
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
