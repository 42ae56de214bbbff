# Generated from schemas/scrub_logs.schema by tools/generate_messages.py; do not edit.
"""ScrubLogs: a node reads what it has of some partitions and checks it against its CRCs; or it tells how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_tqq = Struct(">?qq")
_iq = Struct(">iq")
_iqq = Struct(">iqq")


@dataclass(slots=True)
class ScrubLogsRequest:
    API_KEY: ClassVar[int] = 20021
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    is_question: bool = False  # begin nothing, only tell
    topic: str | None = None  # null: all topics
    partition: int = -1  # -1: all of the topic's
    offset: int = -1  # only the segment that holds it; -1: everything

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        is_question = reader.boolean()
        topic = reader.nullable_string(True)
        partition, offset = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(is_question, topic, partition, offset)

    def encode(self, writer: Writer, version: int) -> None:
        writer.boolean(self.is_question)
        writer.nullable_string(self.topic, True)
        writer.pack(_iq, self.partition, self.offset)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DamagedPlace:
    topic: str = ""
    partition_index: int = 0
    first_offset: int = 0
    end_offset: int = 0  # exclusive
    problem: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic = reader.string(True)
        partition_index, first_offset, end_offset = reader.unpack(_iqq)
        problem = reader.string(True)
        reader.skip_tagged_fields()
        return cls(topic, partition_index, first_offset, end_offset, problem)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic, True)
        writer.pack(_iqq, self.partition_index, self.first_offset, self.end_offset)
        writer.string(self.problem, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ScrubLogsResponse:
    API_KEY: ClassVar[int] = 20021
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None
    is_running: bool = False
    checked_bytes: int = 0
    total_bytes: int = 0
    damaged: list[DamagedPlace] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        is_running, checked_bytes, total_bytes = reader.unpack(_tqq)
        damaged = reader.array(DamagedPlace.decode, version, True, 23)
        reader.skip_tagged_fields()
        return cls(error_code, error_message, is_running, checked_bytes, total_bytes, damaged)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.pack(_tqq, self.is_running, self.checked_bytes, self.total_bytes)
        writer.array(self.damaged, version, True)
        writer.no_tagged_fields()
