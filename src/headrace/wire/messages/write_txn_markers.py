# Generated from schemas/write_txn_markers.schema by tools/generate_messages.py; do not edit.
"""WriteTxnMarkers: the transaction coordinator tells leaders how transactions ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer

_ih = Struct(">ih")
_qht = Struct(">qh?")


@dataclass(slots=True)
class WritableTxnMarkerTopic:
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
class WritableTxnMarker:
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int = 0
    transaction_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        producer_id, producer_epoch, transaction_result = reader.unpack(_qht)
        topics = reader.array(WritableTxnMarkerTopic.decode, version, True, 3)
        coordinator_epoch = reader.int32()
        transaction_version = reader.int8() if version >= 2 else 0
        reader.skip_tagged_fields()
        return cls(producer_id, producer_epoch, transaction_result, topics, coordinator_epoch, transaction_version)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_qht, self.producer_id, self.producer_epoch, self.transaction_result)
        writer.array(self.topics, version, True)
        writer.int32(self.coordinator_epoch)
        if version >= 2:
            writer.int8(self.transaction_version)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    markers: list[WritableTxnMarker] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        markers = reader.array(WritableTxnMarker.decode, version, True, 17)
        reader.skip_tagged_fields()
        return cls(markers)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.markers, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code = reader.unpack(_ih)
        reader.skip_tagged_fields()
        return cls(partition_index, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.partition_index, self.error_code)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        partitions = reader.array(WritableTxnMarkerPartitionResult.decode, version, True, 7)
        reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WritableTxnMarkerResult:
    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        producer_id = reader.int64()
        topics = reader.array(WritableTxnMarkerTopicResult.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(producer_id, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int64(self.producer_id)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class WriteTxnMarkersResponse:
    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        markers = reader.array(WritableTxnMarkerResult.decode, version, True, 10)
        reader.skip_tagged_fields()
        return cls(markers)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.markers, version, True)
        writer.no_tagged_fields()
