# Generated from schemas/give_up_replica.schema by tools/generate_messages.py; do not edit.
"""GiveUpReplica: a node's copy of a partition is damaged (lost), or finds no room; it asks to be let out of the in-sync set."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_iquitt = Struct(">iq16si??")


@dataclass(slots=True)
class GiveUpReplicaRequest:
    API_KEY: ClassVar[int] = 20020
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    broker_epoch: int = 0
    topic_id: TopicId = NO_TOPIC_ID
    partition_index: int = 0
    is_lost: bool = False
    serves_nothing: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id, broker_epoch, topic_id, partition_index, is_lost, serves_nothing = reader.unpack(_iquitt)
        reader.skip_tagged_fields()
        return cls(node_id, broker_epoch, topic_id, partition_index, is_lost, serves_nothing)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(
            _iquitt, self.node_id, self.broker_epoch, self.topic_id, self.partition_index, self.is_lost,
            self.serves_nothing,
        )
        writer.no_tagged_fields()


@dataclass(slots=True)
class GiveUpReplicaResponse:
    API_KEY: ClassVar[int] = 20020
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.no_tagged_fields()
