# Generated from schemas/live_transactions.schema by tools/generate_messages.py; do not edit.
"""LiveTransactions: where transactions of a producer are open or ending, as their coordinators know. Between nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ii = Struct(">ii")


@dataclass(slots=True)
class LiveTransactionsCoordinator:
    partition_index: int = 0
    leader_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, leader_epoch = reader.unpack(_ii)
        reader.skip_tagged_fields()
        return cls(partition_index, leader_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ii, self.partition_index, self.leader_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class LiveTransactionsRequest:
    API_KEY: ClassVar[int] = 20022
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    producer_id: int = 0
    coordinators: list[LiveTransactionsCoordinator] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        producer_id = reader.int64()
        coordinators = reader.array(LiveTransactionsCoordinator.decode, version, True, 9)
        reader.skip_tagged_fields()
        return cls(producer_id, coordinators)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int64(self.producer_id)
        writer.array(self.coordinators, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class LiveTransactionsTopic:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partition_indexes = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(name, partition_indexes)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.numbers("i", self.partition_indexes, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class LiveTransactionsResponse:
    API_KEY: ClassVar[int] = 20022
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    topics: list[LiveTransactionsTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        topics = reader.array(LiveTransactionsTopic.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(error_code, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()
