# Generated from schemas/consumer_protocol.schema by tools/generate_messages.py; do not edit.
"""The consumer protocol: what members of a classic consumer group tell each other, through JoinGroup and SyncGroup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer


@dataclass(slots=True)
class OwnedPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic = reader.string()
        partitions = reader.numbers("i")
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic)
        writer.numbers("i", self.partitions)


@dataclass(slots=True)
class ConsumerProtocolSubscription:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None  # the assignor's own business
    owned_partitions: list[OwnedPartitions] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topics = reader.strings()
        user_data = reader.nullable_blob()
        owned_partitions = reader.array(OwnedPartitions.decode, version, False, 6) if version >= 1 else []
        generation_id = reader.int32() if version >= 2 else -1
        rack_id = reader.nullable_string() if version >= 3 else None
        return cls(topics, user_data, owned_partitions, generation_id, rack_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.topics)
        writer.nullable_blob(self.user_data)
        if version >= 1:
            writer.array(self.owned_partitions, version, False)
        if version >= 2:
            writer.int32(self.generation_id)
        if version >= 3:
            writer.nullable_string(self.rack_id)


@dataclass(slots=True)
class AssignedPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic = reader.string()
        partitions = reader.numbers("i")
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic)
        writer.numbers("i", self.partitions)


@dataclass(slots=True)
class ConsumerProtocolAssignment:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    assigned_partitions: list[AssignedPartitions] = field(default_factory=list)
    user_data: bytes | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        assigned_partitions = reader.array(AssignedPartitions.decode, version, False, 6)
        user_data = reader.nullable_blob()
        return cls(assigned_partitions, user_data)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.assigned_partitions, version, False)
        writer.nullable_blob(self.user_data)
