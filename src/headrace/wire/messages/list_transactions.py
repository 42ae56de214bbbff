# Generated from schemas/list_transactions.schema by tools/generate_messages.py; do not edit.
"""ListTransactions: transactions by state, producer and age."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class ListTransactionsRequest:
    API_KEY: ClassVar[int] = 66
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        state_filters = reader.strings(True)
        producer_id_filters = reader.numbers("q", True)
        duration_filter = reader.int64() if version >= 1 else -1
        transactional_id_pattern = reader.nullable_string(True) if version >= 2 else None
        reader.skip_tagged_fields()
        return cls(state_filters, producer_id_filters, duration_filter, transactional_id_pattern)

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.state_filters, True)
        writer.numbers("q", self.producer_id_filters, True)
        if version >= 1:
            writer.int64(self.duration_filter)
        elif self.duration_filter != -1:
            raise unsayable("ListTransactionsRequest.duration_filter", version)
        if version >= 2:
            writer.nullable_string(self.transactional_id_pattern, True)
        elif self.transactional_id_pattern is not None:
            raise unsayable("ListTransactionsRequest.transactional_id_pattern", version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TransactionState:
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        transactional_id = reader.string(True)
        producer_id = reader.int64()
        transaction_state = reader.string(True)
        reader.skip_tagged_fields()
        return cls(transactional_id, producer_id, transaction_state)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.transactional_id, True)
        writer.int64(self.producer_id)
        writer.string(self.transaction_state, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ListTransactionsResponse:
    API_KEY: ClassVar[int] = 66
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        unknown_state_filters = reader.strings(True)
        transaction_states = reader.array(TransactionState.decode, version, True, 11)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, unknown_state_filters, transaction_states)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.strings(self.unknown_state_filters, True)
        writer.array(self.transaction_states, version, True)
        writer.no_tagged_fields()
