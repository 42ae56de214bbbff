# Generated from schemas/plan_rebalance.schema by tools/generate_messages.py; do not edit.
"""PlanRebalance: which replicas would have to move so that every node has its share. Nothing is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class PlanRebalanceRequest:
    API_KEY: ClassVar[int] = 20009
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    away_from: int = -1  # only what this node has to give up; -1: everything

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        away_from = reader.int32()
        reader.skip_tagged_fields()
        return cls(away_from)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.away_from)
        writer.no_tagged_fields()


@dataclass(slots=True)
class MovingPartition:
    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)  # as they are
    target: list[int] = field(default_factory=list)  # as they shall be; the first is the preferred leader

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        replicas = reader.numbers("i", True)
        target = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(partition_index, replicas, target)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)
        writer.numbers("i", self.replicas, True)
        writer.numbers("i", self.target, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class MovingTopic:
    name: str = ""
    partitions: list[MovingPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(MovingPartition.decode, version, True, 7)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PlanRebalanceResponse:
    API_KEY: ClassVar[int] = 20009
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None
    topics: list[MovingTopic] = field(default_factory=list)
    stuck_replicas: int = 0  # would have to move, and cannot: there are not enough other nodes

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        topics = reader.array(MovingTopic.decode, version, True, 3)
        stuck_replicas = reader.int32()
        reader.skip_tagged_fields()
        return cls(error_code, error_message, topics, stuck_replicas)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.topics, version, True)
        writer.int32(self.stuck_replicas)
        writer.no_tagged_fields()
