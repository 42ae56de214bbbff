# Generated from schemas/fetch.schema by tools/generate_messages.py; do not edit.
"""Fetch: read record batches, for consumers and followers alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer, unsayable

_hi = Struct(">hi")
_ihqq = Struct(">ihqq")
_ii = Struct(">ii")
_iiib = Struct(">iiib")
_iq = Struct(">iq")
_qi = Struct(">qi")
_qq = Struct(">qq")


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = -1  # -1 for a consumer
    replica_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        replica_id, replica_epoch = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(replica_id, replica_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.replica_id, self.replica_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class FetchPartition:
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: TopicId = NO_TOPIC_ID
    high_watermark: int = 9223372036854775807  # the greatest: not told
    flushed_offset: int = -1  # ours: what the follower has on its device

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        partition = reader.int32()
        current_leader_epoch = reader.int32() if version >= 9 else -1
        fetch_offset = reader.int64()
        last_fetched_epoch = reader.int32() if version >= 12 else -1
        log_start_offset = reader.int64() if version >= 5 else -1
        partition_max_bytes = reader.int32()
        replica_directory_id: TopicId = NO_TOPIC_ID
        high_watermark: int = 9223372036854775807
        flushed_offset: int = -1
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0 and version >= 17:
                    replica_directory_id = reader.uuid()
                elif tag == 1 and version >= 18:
                    high_watermark = reader.int64()
                elif tag == 10000:
                    flushed_offset = reader.int64()
        return cls(
            partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes,
            replica_directory_id, high_watermark, flushed_offset,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        writer.int32(self.partition)
        if version >= 9:
            writer.int32(self.current_leader_epoch)
        writer.int64(self.fetch_offset)
        if version >= 12:
            writer.int32(self.last_fetched_epoch)
        elif self.last_fetched_epoch != -1:
            raise unsayable("FetchPartition.last_fetched_epoch", version)
        if version >= 5:
            writer.int64(self.log_start_offset)
        writer.int32(self.partition_max_bytes)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if version >= 17 and self.replica_directory_id != NO_TOPIC_ID:
                value = Writer()
                value.uuid(self.replica_directory_id)
                tagged.append((0, value))
            if version >= 18 and self.high_watermark != 9223372036854775807:
                value = Writer()
                value.int64(self.high_watermark)
                tagged.append((1, value))
            if self.flushed_offset != -1:
                value = Writer()
                value.int64(self.flushed_offset)
                tagged.append((10000, value))
            writer.tagged_fields(tagged)


@dataclass(slots=True)
class FetchTopic:
    topic: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[FetchPartition] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        topic = reader.string(compact) if version <= 12 else ""
        topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
        partitions = reader.array(FetchPartition.decode, version, compact, 16)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        if version <= 12:
            writer.string(self.topic, compact)
        if version >= 13:
            writer.uuid(self.topic_id)
        writer.array(self.partitions, version, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class ForgottenTopic:
    topic: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        topic = reader.string(compact) if version <= 12 else ""
        topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
        partitions = reader.numbers("i", compact)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        if version <= 12:
            writer.string(self.topic, compact)
        if version >= 13:
            writer.uuid(self.topic_id)
        writer.numbers("i", self.partitions, compact)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class FetchRequest:
    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (4, 18)
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    cluster_id: str | None = None
    replica_id: int = -1  # -1 for a consumer
    replica_state: ReplicaState = field(default_factory=ReplicaState)
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0  # 0 read_uncommitted, 1 read_committed
    session_id: int = 0
    session_epoch: int = -1  # 0 opens a session, -1 closes it
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""
    unanswered: int = 0  # ours: fetches of this session that were sent before, and not yet answered

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        replica_id = reader.int32() if version <= 14 else -1
        max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(_iiib)
        session_id, session_epoch = reader.unpack(_ii) if version >= 7 else (0, -1)
        topics = reader.array(FetchTopic.decode, version, compact, 3)
        forgotten_topics_data = reader.array(ForgottenTopic.decode, version, compact, 3) if version >= 7 else []
        rack_id = reader.string(compact) if version >= 11 else ""
        cluster_id: str | None = None
        replica_state: ReplicaState = ReplicaState()
        unanswered: int = 0
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0:
                    cluster_id = reader.nullable_string(True)
                elif tag == 1 and version >= 15:
                    replica_state = ReplicaState.decode(reader, version)
                elif tag == 10000 and version >= 15:
                    unanswered = reader.int32()
        return cls(
            cluster_id, replica_id, replica_state, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id,
            session_epoch, topics, forgotten_topics_data, rack_id, unanswered,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        if version <= 14:
            writer.int32(self.replica_id)
        elif self.replica_id != -1:
            raise unsayable("FetchRequest.replica_id", version)
        writer.pack(_iiib, self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level)
        if version >= 7:
            writer.pack(_ii, self.session_id, self.session_epoch)
        writer.array(self.topics, version, compact)
        if version >= 7:
            writer.array(self.forgotten_topics_data, version, compact)
        elif self.forgotten_topics_data:
            raise unsayable("FetchRequest.forgotten_topics_data", version)
        if version >= 11:
            writer.string(self.rack_id, compact)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.cluster_id is not None:
                value = Writer()
                value.nullable_string(self.cluster_id, True)
                tagged.append((0, value))
            if version >= 15 and self.replica_state != ReplicaState():
                value = Writer()
                self.replica_state.encode(value, version)
                tagged.append((1, value))
            if version >= 15 and self.unanswered != 0:
                value = Writer()
                value.int32(self.unanswered)
                tagged.append((10000, value))
            writer.tagged_fields(tagged)
        if version < 15 and self.replica_state != ReplicaState():
            raise unsayable("FetchRequest.replica_state", version)


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = -1
    end_offset: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        epoch, end_offset = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(epoch, end_offset)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.epoch, self.end_offset)
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
class SnapshotId:
    end_offset: int = -1
    epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        end_offset, epoch = reader.unpack(_qi)
        reader.skip_tagged_fields()
        return cls(end_offset, epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_qi, self.end_offset, self.epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AbortedTransaction:
    producer_id: int = 0
    first_offset: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        producer_id, first_offset = reader.unpack(_qq)
        if compact:
            reader.skip_tagged_fields()
        return cls(producer_id, first_offset)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        writer.pack(_qq, self.producer_id, self.first_offset)
        if compact:
            writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    may_have_gaps: bool = False  # ours, for followers: the log was compacted
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)  # null for read_uncommitted
    preferred_read_replica: int = -1
    records: bytes | memoryview | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        partition_index, error_code, high_watermark, last_stable_offset = reader.unpack(_ihqq)
        log_start_offset = reader.int64() if version >= 5 else -1
        aborted_transactions = reader.nullable_array(AbortedTransaction.decode, version, compact, 16)
        preferred_read_replica = reader.int32() if version >= 11 else -1
        records = reader.nullable_view(compact)
        diverging_epoch: EpochEndOffset = EpochEndOffset()
        current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
        snapshot_id: SnapshotId = SnapshotId()
        may_have_gaps: bool = False
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0:
                    diverging_epoch = EpochEndOffset.decode(reader, version)
                elif tag == 1:
                    current_leader = LeaderIdAndEpoch.decode(reader, version)
                elif tag == 2:
                    snapshot_id = SnapshotId.decode(reader, version)
                elif tag == 10000:
                    may_have_gaps = reader.boolean()
        return cls(
            partition_index, error_code, high_watermark, last_stable_offset, log_start_offset, diverging_epoch,
            current_leader, snapshot_id, may_have_gaps, aborted_transactions, preferred_read_replica, records,
        )

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        writer.pack(_ihqq, self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset)
        if version >= 5:
            writer.int64(self.log_start_offset)
        writer.nullable_array(self.aborted_transactions, version, compact)
        if version >= 11:
            writer.int32(self.preferred_read_replica)
        elif self.preferred_read_replica != -1:
            raise unsayable("PartitionData.preferred_read_replica", version)
        writer.nullable_blob(self.records, compact)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if self.diverging_epoch != EpochEndOffset():
                value = Writer()
                self.diverging_epoch.encode(value, version)
                tagged.append((0, value))
            if self.current_leader != LeaderIdAndEpoch():
                value = Writer()
                self.current_leader.encode(value, version)
                tagged.append((1, value))
            if self.snapshot_id != SnapshotId():
                value = Writer()
                self.snapshot_id.encode(value, version)
                tagged.append((2, value))
            if self.may_have_gaps:
                value = Writer()
                value.boolean(self.may_have_gaps)
                tagged.append((10000, value))
            writer.tagged_fields(tagged)
        if version < 12 and self.diverging_epoch != EpochEndOffset():
            raise unsayable("PartitionData.diverging_epoch", version)
        if version < 12 and self.current_leader != LeaderIdAndEpoch():
            raise unsayable("PartitionData.current_leader", version)
        if version < 12 and self.snapshot_id != SnapshotId():
            raise unsayable("PartitionData.snapshot_id", version)


@dataclass(slots=True)
class FetchableTopicResponse:
    topic: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    partitions: list[PartitionData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        topic = reader.string(compact) if version <= 12 else ""
        topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
        partitions = reader.array(PartitionData.decode, version, compact, 30)
        if compact:
            reader.skip_tagged_fields()
        return cls(topic, topic_id, partitions)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        if version <= 12:
            writer.string(self.topic, compact)
        if version >= 13:
            writer.uuid(self.topic_id)
        writer.array(self.partitions, version, compact)
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
class FetchResponse:
    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (4, 18)
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        compact = version >= 12
        throttle_time_ms = reader.int32()
        error_code, session_id = reader.unpack(_hi) if version >= 7 else (0, 0)
        responses = reader.array(FetchableTopicResponse.decode, version, compact, 3)
        node_endpoints: list[NodeEndpoint] = []
        if compact:
            for tag in reader.tagged_fields():
                if tag == 0 and version >= 16:
                    node_endpoints = reader.array(NodeEndpoint.decode, version, True, 11)
        return cls(throttle_time_ms, error_code, session_id, responses, node_endpoints)

    def encode(self, writer: Writer, version: int) -> None:
        compact = version >= 12
        writer.int32(self.throttle_time_ms)
        if version >= 7:
            writer.pack(_hi, self.error_code, self.session_id)
        elif self.session_id != 0:
            raise unsayable("FetchResponse.session_id", version)
        writer.array(self.responses, version, compact)
        if compact:
            tagged: list[tuple[int, Writer]] = []
            if version >= 16 and self.node_endpoints:
                value = Writer()
                value.array(self.node_endpoints, version, True)
                tagged.append((0, value))
            writer.tagged_fields(tagged)
        if version < 16 and self.node_endpoints:
            raise unsayable("FetchResponse.node_endpoints", version)
