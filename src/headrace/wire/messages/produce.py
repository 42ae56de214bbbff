# Generated from schemas/produce.schema by tools/generate_messages.py; do not edit.
"""Produce: append record batches to partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_hi = Struct(">hi")
_ihqq = Struct(">ihqq")
_ii = Struct(">ii")


@dataclass(slots=True)
class PartitionProduceData:
    index: int = 0
    records: bytes | memoryview | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        index = reader.int32()
        records = reader.nullable_view(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(index, records)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.int32(self.index)
        writer.nullable_blob(self.records, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TopicProduceData:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partition_data: list[PartitionProduceData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        name = reader.string(compact) if version <= 12 else ""
        topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
        partition_data = reader.array(PartitionProduceData.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, topic_id, partition_data)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        if version <= 12:
            writer.string(self.name, compact)
        if version >= 13:
            writer.uuid(self.topic_id)
        writer.array(self.partition_data, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ProduceRequest:
    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[tuple[int, int]] = (3, 13)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    transactional_id: str | None = None
    acks: int = 0  # 0 no answer, 1 the leader, -1 all in-sync replicas
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        transactional_id = reader.nullable_string(compact)
        acks, timeout_ms = reader.unpack(_hi)
        topic_data = reader.array(TopicProduceData.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(transactional_id, acks, timeout_ms, topic_data)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.nullable_string(self.transactional_id, compact)
        writer.pack(_hi, self.acks, self.timeout_ms)
        writer.array(self.topic_data, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    batch_index: int = 0
    batch_index_error_message: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        batch_index = reader.int32()
        batch_index_error_message = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(batch_index, batch_index_error_message)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.int32(self.batch_index)
        writer.nullable_string(self.batch_index_error_message, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        leader_id, leader_epoch = reader.unpack(_ii)
        reader.skip_tagged_fields()
        return cls(leader_id, leader_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ii, self.leader_id, self.leader_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionProduceResponse:
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1  # -1 where the producer sets the timestamp
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        index, error_code, base_offset, log_append_time_ms = reader.unpack(_ihqq)
        log_start_offset = reader.int64() if version >= 5 else -1
        record_errors = reader.array(BatchIndexAndErrorMessage.decode, version, compact, 6) if version >= 8 else []
        error_message = reader.nullable_string(compact) if version >= 8 else None
        current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0 and version >= 10:
                    current_leader = LeaderIdAndEpoch.decode(reader, version)
        return cls(
            index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message,
            current_leader,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.pack(_ihqq, self.index, self.error_code, self.base_offset, self.log_append_time_ms)
        if version >= 5:
            writer.int64(self.log_start_offset)
        if version >= 8:
            writer.array(self.record_errors, version, compact)
        if version >= 8:
            writer.nullable_string(self.error_message, compact)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if version >= 10 and self.current_leader != LeaderIdAndEpoch():
                value = Writer()
                self.current_leader.encode(value, version)
                tagged.append((0, value))
            writer.tagged_fields(tagged)
        if version < 10 and self.current_leader != LeaderIdAndEpoch():
            raise unsayable("PartitionProduceResponse.current_leader", version)


@dataclass(slots=True)
class TopicProduceResponse:
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        name = reader.string(compact) if version <= 12 else ""
        topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
        partition_responses = reader.array(PartitionProduceResponse.decode, version, compact, 22)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, topic_id, partition_responses)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        if version <= 12:
            writer.string(self.name, compact)
        if version >= 13:
            writer.uuid(self.topic_id)
        writer.array(self.partition_responses, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        host = reader.string(True)
        port = reader.int32()
        rack = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(node_id, host, port, rack)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.string(self.host, True)
        writer.int32(self.port)
        writer.nullable_string(self.rack, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ProduceResponse:
    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[tuple[int, int]] = (3, 13)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 9
        responses = reader.array(TopicProduceResponse.decode, version, compact, 3)
        throttle_time_ms = reader.int32()
        node_endpoints: list[NodeEndpoint] = []
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0 and version >= 10:
                    node_endpoints = reader.array(NodeEndpoint.decode, version, True, 11)
        return cls(responses, throttle_time_ms, node_endpoints)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 9
        writer.array(self.responses, version, compact)
        writer.int32(self.throttle_time_ms)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if version >= 10 and self.node_endpoints:
                value = Writer()
                value.array(self.node_endpoints, version, True)
                tagged.append((0, value))
            writer.tagged_fields(tagged)
        if version < 10 and self.node_endpoints:
            raise unsayable("ProduceResponse.node_endpoints", version)
