# Generated from schemas/elect_leaders.schema by tools/generate_messages.py; do not edit.
"""ElectLeaders: make the preferred replica lead again (0), or accept an unclean leader (1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")


@dataclass(slots=True)
class TopicPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topic = reader.string(compact)
        partitions = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.topic, compact)
        writer.numbers("i", self.partitions, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ElectLeadersRequest:
    API_KEY: ClassVar[int] = 43
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        election_type = reader.int8() if version >= 1 else 0
        topic_partitions = reader.nullable_array(TopicPartitions.decode, version, compact, 3)
        timeout_ms = reader.int32()
        if compact:
            reader.skip_tagged_fields()
        return cls(election_type, topic_partitions, timeout_ms)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        if version >= 1:
            writer.int8(self.election_type)
        elif self.election_type != 0:
            raise unsayable("ElectLeadersRequest.election_type", version)
        writer.nullable_array(self.topic_partitions, version, compact)
        writer.int32(self.timeout_ms)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionResult:
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        partition_id, error_code = reader.unpack(_ih)
        error_message = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_id, error_code, error_message)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.pack(_ih, self.partition_id, self.error_code)
        writer.nullable_string(self.error_message, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ReplicaElectionResult:
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        topic = reader.string(compact)
        partition_result = reader.array(PartitionResult.decode, version, compact, 8)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, partition_result)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.string(self.topic, compact)
        writer.array(self.partition_result, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ElectLeadersResponse:
    API_KEY: ClassVar[int] = 43
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 2
        throttle_time_ms = reader.int32()
        error_code = reader.int16() if version >= 1 else 0
        replica_election_results = reader.array(ReplicaElectionResult.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, error_code, replica_election_results)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 2
        writer.int32(self.throttle_time_ms)
        if version >= 1:
            writer.int16(self.error_code)
        elif self.error_code != 0:
            raise unsayable("ElectLeadersResponse.error_code", version)
        writer.array(self.replica_election_results, version, compact)
        if compact:
            writer.no_tagged_fields()
