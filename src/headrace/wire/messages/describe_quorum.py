# Generated from schemas/describe_quorum.schema by tools/generate_messages.py; do not edit.
"""DescribeQuorum: voters and observers of the metadata log, and how far each is."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")
_iiq = Struct(">iiq")
_qq = Struct(">qq")


@dataclass(slots=True)
class PartitionData:
    partition_index: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index = reader.int32()
        reader.skip_tagged_fields()
        return cls(partition_index)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.partition_index)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicData:
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_name = reader.string(True)
        partitions = reader.array(PartitionData.decode, version, True, 5)
        reader.skip_tagged_fields()
        return cls(topic_name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic_name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeQuorumRequest:
    API_KEY: ClassVar[int] = 55
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[TopicData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topics = reader.array(TopicData.decode, version, True, 3)
        reader.skip_tagged_fields()
        return cls(topics)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.topics, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = 0
    replica_directory_id: TopicId = NO_TOPIC_ID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        replica_id = reader.int32()
        replica_directory_id = reader.uuid() if version >= 2 else NO_TOPIC_ID
        log_end_offset = reader.int64()
        last_fetch_timestamp, last_caught_up_timestamp = reader.unpack(_qq) if version >= 1 else (-1, -1)
        reader.skip_tagged_fields()
        return cls(replica_id, replica_directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.replica_id)
        if version >= 2:
            writer.uuid(self.replica_directory_id)
        elif self.replica_directory_id != NO_TOPIC_ID:
            raise unsayable("ReplicaState.replica_directory_id", version)
        writer.int64(self.log_end_offset)
        if version >= 1:
            writer.pack(_qq, self.last_fetch_timestamp, self.last_caught_up_timestamp)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionQuorum:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        partition_index, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(True) if version >= 2 else ""
        leader_id, leader_epoch, high_watermark = reader.unpack(_iiq)
        current_voters = reader.array(ReplicaState.decode, version, True, 13)
        observers = reader.array(ReplicaState.decode, version, True, 13)
        reader.skip_tagged_fields()
        return cls(
            partition_index, error_code, error_message, leader_id, leader_epoch, high_watermark, current_voters,
            observers,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ih, self.partition_index, self.error_code)
        if version >= 2:
            writer.nullable_string(self.error_message, True)
        writer.pack(_iiq, self.leader_id, self.leader_epoch, self.high_watermark)
        writer.array(self.current_voters, version, True)
        writer.array(self.observers, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicQuorum:
    topic_name: str = ""
    partitions: list[PartitionQuorum] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_name = reader.string(True)
        partitions = reader.array(PartitionQuorum.decode, version, True, 25)
        reader.skip_tagged_fields()
        return cls(topic_name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.topic_name, True)
        writer.array(self.partitions, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        name = reader.string(True)
        host = reader.string(True)
        port = reader.uint16()
        reader.skip_tagged_fields()
        return cls(name, host, port)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.name, True)
        writer.string(self.host, True)
        writer.uint16(self.port)
        writer.no_tagged_fields()


@dataclass(slots=True)
class Node:
    node_id: int = 0
    listeners: list[Listener] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        listeners = reader.array(Listener.decode, version, True, 5)
        reader.skip_tagged_fields()
        return cls(node_id, listeners)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.array(self.listeners, version, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class DescribeQuorumResponse:
    API_KEY: ClassVar[int] = 55
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0
    error_message: str | None = ""
    topics: list[TopicQuorum] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        error_code = reader.int16()
        error_message = reader.nullable_string(True) if version >= 2 else ""
        topics = reader.array(TopicQuorum.decode, version, True, 3)
        nodes = reader.array(Node.decode, version, True, 6) if version >= 2 else []
        reader.skip_tagged_fields()
        return cls(error_code, error_message, topics, nodes)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        if version >= 2:
            writer.nullable_string(self.error_message, True)
        writer.array(self.topics, version, True)
        if version >= 2:
            writer.array(self.nodes, version, True)
        elif self.nodes:
            raise unsayable("DescribeQuorumResponse.nodes", version)
        writer.no_tagged_fields()
