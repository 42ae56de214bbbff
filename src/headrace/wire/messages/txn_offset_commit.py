# Generated from schemas/txn_offset_commit.schema by tools/generate_messages.py; do not edit.
"""TxnOffsetCommit: offsets that count once the transaction commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.wire.primitives import Reader, Writer, unsayable

_ih = Struct(">ih")
_iq = Struct(">iq")
_qh = Struct(">qh")


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        partition_index, committed_offset = reader.unpack(_iq)
        committed_leader_epoch = reader.int32() if version >= 2 else -1
        committed_metadata = reader.nullable_string(compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, committed_offset, committed_leader_epoch, committed_metadata)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_iq, self.partition_index, self.committed_offset)
        if version >= 2:
            writer.int32(self.committed_leader_epoch)
        writer.nullable_string(self.committed_metadata, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        name = reader.string(compact)
        partitions = reader.array(TxnOffsetCommitRequestPartition.decode, version, compact, 14)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TxnOffsetCommitRequest:
    API_KEY: ClassVar[int] = 28
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        transactional_id = reader.string(compact)
        group_id = reader.string(compact)
        producer_id, producer_epoch = reader.unpack(_qh)
        generation_id = reader.int32() if version >= 3 else -1
        member_id = reader.string(compact) if version >= 3 else ""
        group_instance_id = reader.nullable_string(compact) if version >= 3 else None
        topics = reader.array(TxnOffsetCommitRequestTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(
            transactional_id, group_id, producer_id, producer_epoch, generation_id, member_id, group_instance_id,
            topics,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.transactional_id, compact)
        writer.string(self.group_id, compact)
        writer.pack(_qh, self.producer_id, self.producer_epoch)
        if version >= 3:
            writer.int32(self.generation_id)
        elif self.generation_id != -1:
            raise unsayable("TxnOffsetCommitRequest.generation_id", version)
        if version >= 3:
            writer.string(self.member_id, compact)
        elif self.member_id != "":
            raise unsayable("TxnOffsetCommitRequest.member_id", version)
        if version >= 3:
            writer.nullable_string(self.group_instance_id, compact)
        elif self.group_instance_id is not None:
            raise unsayable("TxnOffsetCommitRequest.group_instance_id", version)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        partition_index, error_code = reader.unpack(_ih)
        if compact:
            reader.skip_tagged_fields()
        return cls(partition_index, error_code)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.pack(_ih, self.partition_index, self.error_code)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        name = reader.string(compact)
        partitions = reader.array(TxnOffsetCommitResponsePartition.decode, version, compact, 6)
        if compact:
            reader.skip_tagged_fields()
        return cls(name, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.string(self.name, compact)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class TxnOffsetCommitResponse:
    API_KEY: ClassVar[int] = 28
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 3
        throttle_time_ms = reader.int32()
        topics = reader.array(TxnOffsetCommitResponseTopic.decode, version, compact, 3)
        if compact:
            reader.skip_tagged_fields()
        return cls(throttle_time_ms, topics)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 3
        writer.int32(self.throttle_time_ms)
        writer.array(self.topics, version, compact)
        if compact:
            writer.no_tagged_fields()
