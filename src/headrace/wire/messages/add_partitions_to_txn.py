# Generated from schemas/add_partitions_to_txn.schema by tools/generate_messages.py; do not edit.
"""AddPartitionsToTxn: a transaction is about to write to these partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")
_qh = Struct(">qh")
_qht = Struct(">qh?")


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    name: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        name = reader.string(compact)
        partitions = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.name, compact)
        writer.numbers("i", self.partitions, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        transactional_id = reader.string(True)
        producer_id, producer_epoch, verify_only = reader.unpack(_qht)
        topics = reader.array(AddPartitionsToTxnTopic.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(transactional_id, producer_id, producer_epoch, verify_only, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.transactional_id, True)
        writer.pack(_qht, self.producer_id, self.producer_epoch, self.verify_only)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnRequest:
    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        transactions = reader.array(AddPartitionsToTxnTransaction.decode, version, compact, 14) if version >= 4 else []
        v3_and_below_transactional_id = reader.string(compact) if version <= 3 else ""
        v3_and_below_producer_id, v3_and_below_producer_epoch = reader.unpack(_qh) if version <= 3 else (0, 0)
        v3_and_below_topics = reader.array(AddPartitionsToTxnTopic.decode, version, compact, 3) if version <= 3 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(
            transactions, v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch,
            v3_and_below_topics,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        if version >= 4:
            writer.array(self.transactions, version, compact)
        elif self.transactions:
            raise unsayable("AddPartitionsToTxnRequest.transactions", version)
        if version <= 3:
            writer.string(self.v3_and_below_transactional_id, compact)
        elif self.v3_and_below_transactional_id != "":
            raise unsayable("AddPartitionsToTxnRequest.v3_and_below_transactional_id", version)
        if version <= 3:
            writer.pack(_qh, self.v3_and_below_producer_id, self.v3_and_below_producer_epoch)
        elif self.v3_and_below_producer_id != 0:
            raise unsayable("AddPartitionsToTxnRequest.v3_and_below_producer_id", version)
        elif self.v3_and_below_producer_epoch != 0:
            raise unsayable("AddPartitionsToTxnRequest.v3_and_below_producer_epoch", version)
        if version <= 3:
            writer.array(self.v3_and_below_topics, version, compact)
        elif self.v3_and_below_topics:
            raise unsayable("AddPartitionsToTxnRequest.v3_and_below_topics", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int = 0
    partition_error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        partition_index, partition_error_code = reader.unpack(_ih)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, partition_error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_ih, self.partition_index, self.partition_error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        name = reader.string(compact)
        results_by_partition = reader.array(AddPartitionsToTxnPartitionResult.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, results_by_partition)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.name, compact)
        writer.array(self.results_by_partition, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        transactional_id = reader.string(True)
        topic_results = reader.array(AddPartitionsToTxnTopicResult.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(transactional_id, topic_results)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.transactional_id, True)
        writer.array(self.topic_results, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AddPartitionsToTxnResponse:
    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms = reader.int32()
        error_code = reader.int16() if version >= 4 else 0
        results_by_transaction = (
            reader.array(AddPartitionsToTxnResult.decode, version, compact, 3)
            if version >= 4
            else []
        )
        results_by_topic_v3_and_below = (
            reader.array(AddPartitionsToTxnTopicResult.decode, version, compact, 3)
            if version <= 3
            else []
        )
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.int32(self.throttle_time_ms)
        if version >= 4:
            writer.int16(self.error_code)
        if version >= 4:
            writer.array(self.results_by_transaction, version, compact)
        elif self.results_by_transaction:
            raise unsayable("AddPartitionsToTxnResponse.results_by_transaction", version)
        if version <= 3:
            writer.array(self.results_by_topic_v3_and_below, version, compact)
        elif self.results_by_topic_v3_and_below:
            raise unsayable("AddPartitionsToTxnResponse.results_by_topic_v3_and_below", version)
        if compact:
            writer.no_tagged_fields()
