# Generated from schemas/describe_transactions.schema by tools/generate_messages.py; do not edit.
"""DescribeTransactions: state of transactions by transactional id."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_iqqh = Struct(">iqqh")


@dataclass(slots=True)
class DescribeTransactionsRequest:
    API_KEY: ClassVar[int] = 65
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    transactional_ids: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        transactional_ids = reader.strings(True)
        reader.skip_tagged_fields()
        return cls(transactional_ids)

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.transactional_ids, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicData:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic = reader.string(True)
        partitions = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic, True)
        writer.numbers("i", self.partitions, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TransactionState:
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        transactional_id = reader.string(True)
        transaction_state = reader.string(True)
        transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch = reader.unpack(_iqqh)
        topics = reader.array(TopicData.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(
            error_code, transactional_id, transaction_state, transaction_timeout_ms, transaction_start_time_ms,
            producer_id, producer_epoch, topics,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.string(self.transactional_id, True)
        writer.string(self.transaction_state, True)
        writer.pack(
            _iqqh, self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch,
        )
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeTransactionsResponse:
    API_KEY: ClassVar[int] = 65
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        transaction_states = reader.array(TransactionState.decode, version, True, 28)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, transaction_states)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.array(self.transaction_states, version, True)
        writer.no_tagged_fields()
