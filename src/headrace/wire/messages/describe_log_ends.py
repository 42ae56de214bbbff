# Generated from schemas/describe_log_ends.schema by tools/generate_messages.py; do not edit.
"""DescribeLogEnds: the controller asks a node where its logs of some partitions end. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_ui = Struct(">16si")
_uitiqt = Struct(">16si?iq?")


@dataclass(slots=True)
class AskedLog:
    topic_id: TopicId = NO_TOPIC_ID
    partition_index: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id, partition_index = reader.unpack(_ui)
        reader.skip_tagged_fields()
        return cls(topic_id, partition_index)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ui, self.topic_id, self.partition_index)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeLogEndsRequest:
    API_KEY: ClassVar[int] = 20023
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    logs: list[AskedLog] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        logs = reader.array(AskedLog.decode, version, True, 21)
        reader.skip_tagged_fields()
        return cls(logs)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.logs, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribedLog:
    topic_id: TopicId = NO_TOPIC_ID
    partition_index: int = 0
    may_lead: bool = False  # false: it is damaged, or lacks what was on this disk before
    epoch: int = 0  # of its last batch; -1 if it never had one
    end: int = 0  # exclusive
    was_in_sync: bool = False  # since the node has started

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id, partition_index, may_lead, epoch, end, was_in_sync = reader.unpack(_uitiqt)
        reader.skip_tagged_fields()
        return cls(topic_id, partition_index, may_lead, epoch, end, was_in_sync)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_uitiqt, self.topic_id, self.partition_index, self.may_lead, self.epoch, self.end, self.was_in_sync)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeLogEndsResponse:
    API_KEY: ClassVar[int] = 20023
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None
    logs: list[DescribedLog] = field(default_factory=list)  # those that the node has opened, or knows that it cannot

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        logs = reader.array(DescribedLog.decode, version, True, 35)
        reader.skip_tagged_fields()
        return cls(error_code, error_message, logs)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.logs, version, True)
        writer.no_tagged_fields()
