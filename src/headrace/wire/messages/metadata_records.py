# Generated from schemas/metadata_records.schema by tools/generate_messages.py; do not edit.
"""The records of the metadata log. Keys and fields are ours and are kept on disk: never renumber or reuse one."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Self

from headrace.model.names import NO_TOPIC_ID, TopicId
from headrace.wire.primitives import Reader, Writer

_ui = Struct(">16si")
_bbt = Struct(">bb?")
_bi = Struct(">bi")
_dt = Struct(">d?")
_itt = Struct(">i??")
_iii = Struct(">iii")
_iq = Struct(">iq")
_qi = Struct(">qi")


@dataclass(slots=True)
class ClusterNamedRecord:
    RECORD_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str = ""
    registrations: int = 0  # in snapshots: how often nodes were registered

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        cluster_id = reader.string(True)
        registrations: int = 0
        for tag in reader.tagged_fields():
            if tag == 0:
                registrations = reader.int64()
        return cls(cluster_id, registrations)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.cluster_id, True)
        tagged: list[tuple[int, Writer]] = []
        if self.registrations != 0:
            value = Writer()
            value.int64(self.registrations)
            tagged.append((0, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class NodeEndpoint:
    listener: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        listener = reader.string(True)
        host = reader.string(True)
        port = reader.uint16()
        reader.skip_tagged_fields()
        return cls(listener, host, port)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.listener, True)
        writer.string(self.host, True)
        writer.uint16(self.port)
        writer.no_tagged_fields()


@dataclass(slots=True)
class NodeRegisteredRecord:
    RECORD_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    incarnation: bytes = b""  # chosen anew on each start of the node
    endpoints: list[NodeEndpoint] = field(default_factory=list)
    rack: str | None = ""
    broker_epoch: int = 0  # which registration this is; counts over all nodes
    directory: bytes = b""  # the disk that the node remembers on; empty: not said
    is_fenced: bool = False  # until it has caught up with the metadata it serves nothing
    session_ms: int = 2000  # for so long it may be silent and still lead
    life: int = 0  # how often the disk was started; 0: not said

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        incarnation = reader.blob(True)
        endpoints = reader.array(NodeEndpoint.decode, version, True, 5)
        rack = reader.nullable_string(True)
        broker_epoch: int = 0
        directory: bytes = b""
        is_fenced: bool = False
        session_ms: int = 2000
        life: int = 0
        for tag in reader.tagged_fields():
            if tag == 0:
                broker_epoch = reader.int64()
            elif tag == 1:
                directory = reader.blob(True)
            elif tag == 2:
                is_fenced = reader.boolean()
            elif tag == 3:
                session_ms = reader.int32()
            elif tag == 4:
                life = reader.int64()
        return cls(node_id, incarnation, endpoints, rack, broker_epoch, directory, is_fenced, session_ms, life)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.blob(self.incarnation, True)
        writer.array(self.endpoints, version, True)
        writer.nullable_string(self.rack, True)
        tagged: list[tuple[int, Writer]] = []
        if self.broker_epoch != 0:
            value = Writer()
            value.int64(self.broker_epoch)
            tagged.append((0, value))
        if self.directory != b"":
            value = Writer()
            value.blob(self.directory, True)
            tagged.append((1, value))
        if self.is_fenced:
            value = Writer()
            value.boolean(self.is_fenced)
            tagged.append((2, value))
        if self.session_ms != 2000:
            value = Writer()
            value.int32(self.session_ms)
            tagged.append((3, value))
        if self.life != 0:
            value = Writer()
            value.int64(self.life)
            tagged.append((4, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class TopicCreatedRecord:
    RECORD_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_id: TopicId = NO_TOPIC_ID
    name: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        name = reader.string(True)
        reader.skip_tagged_fields()
        return cls(topic_id, name)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.string(self.name, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class TopicDeletedRecord:
    RECORD_KEY: ClassVar[int] = 4
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_id: TopicId = NO_TOPIC_ID

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id = reader.uuid()
        reader.skip_tagged_fields()
        return cls(topic_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.uuid(self.topic_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionCreatedRecord:
    RECORD_KEY: ClassVar[int] = 5
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_id: TopicId = NO_TOPIC_ID
    partition: int = 0
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    leader: int = 0
    leader_epoch: int = 0
    partition_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id, partition = reader.unpack(_ui)
        replicas = reader.numbers("i", True)
        isr = reader.numbers("i", True)
        leader, leader_epoch, partition_epoch = reader.unpack(_iii)
        reader.skip_tagged_fields()
        return cls(topic_id, partition, replicas, isr, leader, leader_epoch, partition_epoch)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ui, self.topic_id, self.partition)
        writer.numbers("i", self.replicas, True)
        writer.numbers("i", self.isr, True)
        writer.pack(_iii, self.leader, self.leader_epoch, self.partition_epoch)
        writer.no_tagged_fields()


@dataclass(slots=True)
class PartitionChangedRecord:
    RECORD_KEY: ClassVar[int] = 6
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_id: TopicId = NO_TOPIC_ID
    partition: int = 0
    isr: list[int] = field(default_factory=list)
    leader: int = 0  # -1 while nobody can lead
    leader_epoch: int = 0
    partition_epoch: int = 0
    replicas: list[int] | None = None  # null: as before
    adding: list[int] = field(default_factory=list)  # replicas that are being moved here
    removing: list[int] = field(default_factory=list)  # replicas that go once those are in sync
    eligible: list[int] = field(default_factory=list)  # not in sync, and yet they have all that was committed

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        topic_id, partition = reader.unpack(_ui)
        isr = reader.numbers("i", True)
        leader, leader_epoch, partition_epoch = reader.unpack(_iii)
        replicas: list[int] | None = None
        adding: list[int] = []
        removing: list[int] = []
        eligible: list[int] = []
        for tag in reader.tagged_fields():
            if tag == 0:
                replicas = reader.nullable_numbers("i", True)
            elif tag == 1:
                adding = reader.numbers("i", True)
            elif tag == 2:
                removing = reader.numbers("i", True)
            elif tag == 3:
                eligible = reader.numbers("i", True)
        return cls(
            topic_id, partition, isr, leader, leader_epoch, partition_epoch, replicas, adding, removing, eligible,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_ui, self.topic_id, self.partition)
        writer.numbers("i", self.isr, True)
        writer.pack(_iii, self.leader, self.leader_epoch, self.partition_epoch)
        tagged: list[tuple[int, Writer]] = []
        if self.replicas is not None:
            value = Writer()
            value.nullable_numbers("i", self.replicas, True)
            tagged.append((0, value))
        if self.adding:
            value = Writer()
            value.numbers("i", self.adding, True)
            tagged.append((1, value))
        if self.removing:
            value = Writer()
            value.numbers("i", self.removing, True)
            tagged.append((2, value))
        if self.eligible:
            value = Writer()
            value.numbers("i", self.eligible, True)
            tagged.append((3, value))
        writer.tagged_fields(tagged)


@dataclass(slots=True)
class ConfigChangedRecord:
    RECORD_KEY: ClassVar[int] = 7
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    resource_kind: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""  # null: the default again

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        resource_kind = reader.int8()
        resource_name = reader.string(True)
        name = reader.string(True)
        value = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(resource_kind, resource_name, name, value)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int8(self.resource_kind)
        writer.string(self.resource_name, True)
        writer.string(self.name, True)
        writer.nullable_string(self.value, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ProducerIdsReservedRecord:
    RECORD_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    next_producer_id: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id, next_producer_id = reader.unpack(_iq)
        reader.skip_tagged_fields()
        return cls(node_id, next_producer_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_iq, self.node_id, self.next_producer_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class NodeChangedRecord:
    RECORD_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0
    is_fenced: bool = False
    is_draining: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id, is_fenced, is_draining = reader.unpack(_itt)
        reader.skip_tagged_fields()
        return cls(node_id, is_fenced, is_draining)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_itt, self.node_id, self.is_fenced, self.is_draining)
        writer.no_tagged_fields()


@dataclass(slots=True)
class NodeRemovedRecord:
    RECORD_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    node_id: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        reader.skip_tagged_fields()
        return cls(node_id)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.no_tagged_fields()


@dataclass(slots=True)
class ScramChangedRecord:
    RECORD_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    user: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes | None = b""  # these three are null when the user's password of this mechanism is gone
    stored_key: bytes | None = b""
    server_key: bytes | None = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        user = reader.string(True)
        mechanism, iterations = reader.unpack(_bi)
        salt = reader.nullable_blob(True)
        stored_key = reader.nullable_blob(True)
        server_key = reader.nullable_blob(True)
        reader.skip_tagged_fields()
        return cls(user, mechanism, iterations, salt, stored_key, server_key)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.user, True)
        writer.pack(_bi, self.mechanism, self.iterations)
        writer.nullable_blob(self.salt, True)
        writer.nullable_blob(self.stored_key, True)
        writer.nullable_blob(self.server_key, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class AclChangedRecord:
    RECORD_KEY: ClassVar[int] = 12
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal_kind: str = ""
    principal_name: str = ""
    host: str = ""
    operation: int = 0
    permission: int = 0
    exists: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        resource_type = reader.int8()
        resource_name = reader.string(True)
        pattern_type = reader.int8()
        principal_kind = reader.string(True)
        principal_name = reader.string(True)
        host = reader.string(True)
        operation, permission, exists = reader.unpack(_bbt)
        reader.skip_tagged_fields()
        return cls(
            resource_type, resource_name, pattern_type, principal_kind, principal_name, host, operation, permission,
            exists,
        )

    def encode(self, writer: Writer, version: int) -> None:
        writer.int8(self.resource_type)
        writer.string(self.resource_name, True)
        writer.int8(self.pattern_type)
        writer.string(self.principal_kind, True)
        writer.string(self.principal_name, True)
        writer.string(self.host, True)
        writer.pack(_bbt, self.operation, self.permission, self.exists)
        writer.no_tagged_fields()


@dataclass(slots=True)
class QuotaEntityPart:
    kind: str = ""
    name: str | None = ""  # null: whoever has no quota of their own

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        kind = reader.string(True)
        name = reader.nullable_string(True)
        reader.skip_tagged_fields()
        return cls(kind, name)

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.kind, True)
        writer.nullable_string(self.name, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class QuotaChangedRecord:
    RECORD_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    entity: list[QuotaEntityPart] = field(default_factory=list)
    quota: str = ""
    value: float = 0.0
    exists: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        entity = reader.array(QuotaEntityPart.decode, version, True, 3)
        quota = reader.string(True)
        value, exists = reader.unpack(_dt)
        reader.skip_tagged_fields()
        return cls(entity, quota, value, exists)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.entity, version, True)
        writer.string(self.quota, True)
        writer.pack(_dt, self.value, self.exists)
        writer.no_tagged_fields()


@dataclass(slots=True)
class LeadershipBegunRecord:
    RECORD_KEY: ClassVar[int] = 100
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        reader.skip_tagged_fields()
        return cls()

    def encode(self, writer: Writer, version: int) -> None:
        writer.no_tagged_fields()


@dataclass(slots=True)
class VoterOnDisk:
    node_id: int = 0
    directory: bytes | None = b""  # null: not known yet

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        node_id = reader.int32()
        directory = reader.nullable_blob(True)
        reader.skip_tagged_fields()
        return cls(node_id, directory)

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.node_id)
        writer.nullable_blob(self.directory, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class VotersChangedRecord:
    RECORD_KEY: ClassVar[int] = 101
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    voters: list[VoterOnDisk] = field(default_factory=list)
    learners: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        voters = reader.array(VoterOnDisk.decode, version, True, 6)
        learners = reader.numbers("i", True)
        reader.skip_tagged_fields()
        return cls(voters, learners)

    def encode(self, writer: Writer, version: int) -> None:
        writer.array(self.voters, version, True)
        writer.numbers("i", self.learners, True)
        writer.no_tagged_fields()


@dataclass(slots=True)
class SnapshotHeaderRecord:
    RECORD_KEY: ClassVar[int] = 102
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    end: int = 0  # exclusive: the offset that the snapshot reaches up to
    term: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        end, term = reader.unpack(_qi)
        reader.skip_tagged_fields()
        return cls(end, term)

    def encode(self, writer: Writer, version: int) -> None:
        writer.pack(_qi, self.end, self.term)
        writer.no_tagged_fields()
