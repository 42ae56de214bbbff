# Generated from schemas/describe_producers.schema by tools/generate_messages.py; do not edit.
"""DescribeProducers: the producers that a partition remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")
_qiiqiq = Struct(">qiiqiq")


@dataclass(slots=True)
class TopicRequest:
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
class DescribeProducersRequest:
    API_KEY: ClassVar[int] = 61
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[TopicRequest] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topics = reader.array(TopicRequest.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ProducerState:
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        (
            producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset,
        ) = reader.unpack(_qiiqiq)
        reader.skip_tagged_fields()
        return cls(
            producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(
            _qiiqiq, self.producer_id, self.producer_epoch, self.last_sequence, self.last_timestamp,
            self.coordinator_epoch, self.current_txn_start_offset,
        )
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True)
        active_producers = reader.array(ProducerState.decode, version, True, 37)
        reader.skip_tagged_fields()
        return cls(partition_index, error_code, error_message, active_producers)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.partition_index, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.array(self.active_producers, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicResponse:
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(PartitionResponse.decode, version, True, 9)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeProducersResponse:
    API_KEY: ClassVar[int] = 61
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32()
        topics = reader.array(TopicResponse.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()
