# Generated from schemas/alter_partition.schema by tools/generate_messages.py; do not edit.
"""AlterPartition: a leader asks the controller to change its set of in-sync replicas."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_bi = Struct(">bi")
_ih = Struct(">ih")
_ihii = Struct(">ihii")
_ii = Struct(">ii")
_iq = Struct(">iq")


@dataclass(slots=True)
class BrokerState:
    broker_id: int = 0
    broker_epoch: int = -1  # -1: not checked

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id, broker_epoch = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(broker_id, broker_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.broker_id, self.broker_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = field(default_factory=list)
    new_isr_with_epochs: list[BrokerState] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, leader_epoch = reader.unpack(_ii)
        new_isr = reader.numbers("i", True) if version <= 2 else []
        new_isr_with_epochs = reader.array(BrokerState.decode, version, True, 13) if version >= 3 else []
        leader_recovery_state, partition_epoch = reader.unpack(_bi)
        reader.skip_tagged_fields()
        return cls(partition_index, leader_epoch, new_isr, new_isr_with_epochs, leader_recovery_state, partition_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ii, self.partition_index, self.leader_epoch)
        if version <= 2:
            writer.numbers("i", self.new_isr, True)
        elif self.new_isr:
            raise unsayable("PartitionData.new_isr", version)
        if version >= 3:
            writer.array(self.new_isr_with_epochs, version, True)
        elif self.new_isr_with_epochs:
            raise unsayable("PartitionData.new_isr_with_epochs", version)
        writer.pack(_bi, self.leader_recovery_state, self.partition_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicData:
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[PartitionData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        partitions = reader.array(PartitionData.decode, version, True, 15)
        reader.skip_tagged_fields()
        return cls(topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterPartitionRequest:
    API_KEY: ClassVar[int] = 56
    VERSIONS: ClassVar[tuple[int, int]] = (2, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[TopicData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        broker_id, broker_epoch = reader.unpack(_iq)
        topics = reader.array(TopicData.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(broker_id, broker_epoch, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.broker_id, self.broker_epoch)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionState:
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code, leader_id, leader_epoch = reader.unpack(_ihii)
        isr = reader.numbers("i", True)
        leader_recovery_state, partition_epoch = reader.unpack(_bi)
        reader.skip_tagged_fields()
        return cls(partition_index, error_code, leader_id, leader_epoch, isr, leader_recovery_state, partition_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ihii, self.partition_index, self.error_code, self.leader_id, self.leader_epoch)
        writer.numbers("i", self.isr, True)
        writer.pack(_bi, self.leader_recovery_state, self.partition_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicState:
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[PartitionState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        partitions = reader.array(PartitionState.decode, version, True, 21)
        reader.skip_tagged_fields()
        return cls(topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AlterPartitionResponse:
    API_KEY: ClassVar[int] = 56
    VERSIONS: ClassVar[tuple[int, int]] = (2, 3)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[TopicState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms, error_code = reader.unpack(_ih)
        topics = reader.array(TopicState.decode, version, True, 18)
        reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.throttle_time_ms, self.error_code)
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()
