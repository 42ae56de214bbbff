# Generated from schemas/metadata.schema by tools/generate_messages.py; do not edit.
"""Metadata: which brokers are there, which topics exist, who leads their partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, required, unsayable

_hii = Struct(">hii")


@dataclass(slots=True)
class MetadataRequestTopic:
    topic_id: TopicId = NO_TOPIC_ID
    name: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        name = reader.nullable_string(compact) if version >= 10 else reader.string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic_id, name)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        if version >= 10:
            writer.uuid(self.topic_id)
        if version >= 10:
            writer.nullable_string(self.name, compact)
        else:
            writer.string(required(self.name, "MetadataRequestTopic.name", version), compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MetadataRequest:
    API_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[tuple[int, int]] = (0, 13)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    topics: list[MetadataRequestTopic] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        topics = (
            reader.nullable_array(MetadataRequestTopic.decode, version, compact, 2)
            if version >= 1
            else reader.array(MetadataRequestTopic.decode, version, compact, 2)
        )
        allow_auto_topic_creation = reader.boolean() if version >= 4 else True
        include_cluster_authorized_operations = reader.boolean() if 8 <= version <= 10 else False
        include_topic_authorized_operations = reader.boolean() if version >= 8 else False
        if compact:
            reader.skip_tagged_fields()
        return cls(
            topics, allow_auto_topic_creation, include_cluster_authorized_operations,
            include_topic_authorized_operations,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        if version >= 1:
            writer.nullable_array(self.topics, version, compact)
        else:
            writer.array(required(self.topics, "MetadataRequest.topics", version), version, compact)
        if version >= 4:
            writer.boolean(self.allow_auto_topic_creation)
        elif not self.allow_auto_topic_creation:
            raise unsayable("MetadataRequest.allow_auto_topic_creation", version)
        if 8 <= version <= 10:
            writer.boolean(self.include_cluster_authorized_operations)
        elif self.include_cluster_authorized_operations:
            raise unsayable("MetadataRequest.include_cluster_authorized_operations", version)
        if version >= 8:
            writer.boolean(self.include_topic_authorized_operations)
        elif self.include_topic_authorized_operations:
            raise unsayable("MetadataRequest.include_topic_authorized_operations", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MetadataResponseBroker:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        node_id = reader.int32()
        host = reader.string(compact)
        port = reader.int32()
        rack = reader.nullable_string(compact) if version >= 1 else None
        if compact:
            reader.skip_tagged_fields()
        return cls(node_id, host, port, rack)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.int32(self.node_id)
        writer.string(self.host, compact)
        writer.int32(self.port)
        if version >= 1:
            writer.nullable_string(self.rack, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MetadataResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        error_code, partition_index, leader_id = reader.unpack(_hii)
        leader_epoch = reader.int32() if version >= 7 else -1
        replica_nodes = reader.numbers("i", compact)
        isr_nodes = reader.numbers("i", compact)
        offline_replicas = reader.numbers("i", compact) if version >= 5 else []
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, offline_replicas)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.pack(_hii, self.error_code, self.partition_index, self.leader_id)
        if version >= 7:
            writer.int32(self.leader_epoch)
        writer.numbers("i", self.replica_nodes, compact)
        writer.numbers("i", self.isr_nodes, compact)
        if version >= 5:
            writer.numbers("i", self.offline_replicas, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MetadataResponseTopic:
    error_code: int = 0
    name: str | None = ""
    topic_id: TopicId = NO_TOPIC_ID
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648  # the least number: not asked for

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        error_code = reader.int16()
        name = reader.nullable_string(compact) if version >= 12 else reader.string(compact)
        topic_id = reader.uuid() if version >= 10 else NO_TOPIC_ID
        is_internal = reader.boolean() if version >= 1 else False
        partitions = reader.array(MetadataResponsePartition.decode, version, compact, 18)
        topic_authorized_operations = reader.int32() if version >= 8 else -2147483648
        if compact:
            reader.skip_tagged_fields()
        return cls(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.int16(self.error_code)
        if version >= 12:
            writer.nullable_string(self.name, compact)
        else:
            writer.string(required(self.name, "MetadataResponseTopic.name", version), compact)
        if version >= 10:
            writer.uuid(self.topic_id)
        if version >= 1:
            writer.boolean(self.is_internal)
        writer.array(self.partitions, version, compact)
        if version >= 8:
            writer.int32(self.topic_authorized_operations)
        elif self.topic_authorized_operations != -2147483648:
            raise unsayable("MetadataResponseTopic.topic_authorized_operations", version)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class MetadataResponse:
    API_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[tuple[int, int]] = (0, 13)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648  # the least number: not asked for
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        throttle_time_ms = reader.int32() if version >= 3 else 0
        brokers = reader.array(MetadataResponseBroker.decode, version, compact, 10)
        cluster_id = reader.nullable_string(compact) if version >= 2 else None
        controller_id = reader.int32() if version >= 1 else -1
        topics = reader.array(MetadataResponseTopic.decode, version, compact, 8)
        cluster_authorized_operations = reader.int32() if 8 <= version <= 10 else -2147483648
        error_code = reader.int16() if version >= 13 else 0
        if compact:
            reader.skip_tagged_fields()
        return cls(
            throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, error_code,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        writer.array(self.brokers, version, compact)
        if version >= 2:
            writer.nullable_string(self.cluster_id, compact)
        if version >= 1:
            writer.int32(self.controller_id)
        writer.array(self.topics, version, compact)
        if 8 <= version <= 10:
            writer.int32(self.cluster_authorized_operations)
        elif self.cluster_authorized_operations != -2147483648:
            raise unsayable("MetadataResponse.cluster_authorized_operations", version)
        if version >= 13:
            writer.int16(self.error_code)
        if compact:
            writer.no_tagged_fields()
