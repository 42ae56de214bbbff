# Generated from schemas/transaction_records.schema by tools/generate_messages.py; do not edit.
"""The records of `__transaction_state`, in Kafka's own formats: one per transactional id."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_qhib = Struct(">qhib")
_qq = Struct(">qq")


@dataclass(slots=True)
class TransactionLogKey:
    RECORD_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    transactional_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        transactional_id = reader.string()
        return cls(transactional_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.transactional_id)


@dataclass(slots=True)
class TransactionPartitions:
    topic: str = ""
    partition_ids: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        topic = reader.string(compact)
        partition_ids = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partition_ids)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.string(self.topic, compact)
        writer.numbers("i", self.partition_ids, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TransactionLogValue:
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    producer_id: int = 0
    previous_producer_id: int = -1  # of the last ended transaction
    next_producer_id: int = -1  # given out by the EndTxn under way
    producer_epoch: int = 0
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[TransactionPartitions] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 1
        producer_id, producer_epoch, transaction_timeout_ms, transaction_status = reader.unpack(_qhib)
        transaction_partitions = reader.nullable_array(TransactionPartitions.decode, version, compact, 3)
        transaction_last_update_timestamp_ms, transaction_start_timestamp_ms = reader.unpack(_qq)
        previous_producer_id: int = -1
        next_producer_id: int = -1
        client_transaction_version: int = 0
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0:
                    previous_producer_id = reader.int64()
                elif tag == 1:
                    next_producer_id = reader.int64()
                elif tag == 2:
                    client_transaction_version = reader.int16()
        return cls(
            producer_id, previous_producer_id, next_producer_id, producer_epoch, transaction_timeout_ms,
            transaction_status, transaction_partitions, transaction_last_update_timestamp_ms,
            transaction_start_timestamp_ms, client_transaction_version,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 1
        writer.pack(_qhib, self.producer_id, self.producer_epoch, self.transaction_timeout_ms, self.transaction_status)
        writer.nullable_array(self.transaction_partitions, version, compact)
        writer.pack(_qq, self.transaction_last_update_timestamp_ms, self.transaction_start_timestamp_ms)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.previous_producer_id != -1:
                value = Writer()
                value.int64(self.previous_producer_id)
                tagged.append((0, value))
            if self.next_producer_id != -1:
                value = Writer()
                value.int64(self.next_producer_id)
                tagged.append((1, value))
            if self.client_transaction_version != 0:
                value = Writer()
                value.int16(self.client_transaction_version)
                tagged.append((2, value))
            writer.tagged_fields(tagged)
