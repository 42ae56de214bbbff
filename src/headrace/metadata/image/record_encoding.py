"""Metadata records as bytes: their key, their version, then the fields of `wire/schemas/metadata_records.schema`.

Tagged fields that this version does not know are skipped. A record or a version that it does not know stops it: whoever
skips a whole record would hold another image than the rest of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, cast

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, ScramVerifier
from headrace.access.identity import Principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.quotas.entity import EntityPart
from headrace.access.rules.acl import Acl
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.image.records import (
    AclChanged,
    ClusterNamed,
    ConfigChanged,
    Endpoint,
    MetadataRecord,
    NodeChanged,
    NodeRegistered,
    NodeRemoved,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    QuotaChanged,
    ScramChanged,
    TopicCreated,
    TopicDeleted,
)
from headrace.model.names import Epoch, NodeId, ProducerId
from headrace.wire.messages import metadata_records as wire
from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from headrace.metadata.image.records import AccessRecord
    from headrace.wire.primitives import Buffer

AccessWireRecord = wire.ScramChangedRecord | wire.AclChangedRecord | wire.QuotaChangedRecord

WireRecord = (
    wire.ClusterNamedRecord
    | wire.NodeRegisteredRecord
    | wire.NodeChangedRecord
    | wire.NodeRemovedRecord
    | wire.TopicCreatedRecord
    | wire.TopicDeletedRecord
    | wire.PartitionCreatedRecord
    | wire.PartitionChangedRecord
    | wire.ConfigChangedRecord
    | wire.ProducerIdsReservedRecord
    | AccessWireRecord
)

_RECORD_TYPES: Final[dict[int, type[WireRecord]]] = {
    kind.RECORD_KEY: kind
    for kind in (
        wire.ClusterNamedRecord,
        wire.NodeRegisteredRecord,
        wire.NodeChangedRecord,
        wire.NodeRemovedRecord,
        wire.TopicCreatedRecord,
        wire.TopicDeletedRecord,
        wire.PartitionCreatedRecord,
        wire.PartitionChangedRecord,
        wire.ConfigChangedRecord,
        wire.ProducerIdsReservedRecord,
        wire.ScramChangedRecord,
        wire.AclChangedRecord,
        wire.QuotaChangedRecord,
    )
}


class UnreadableRecord(Exception):
    """The metadata log holds something that this version of the program cannot read; the node must not go on."""


def encode_record(record: MetadataRecord) -> bytes:
    body = _to_wire(record)
    version = body.VERSIONS[1]
    writer = Writer()
    writer.uvarint(body.RECORD_KEY)
    writer.uvarint(version)
    body.encode(writer, version)
    return bytes(writer.buffer)


def decode_record(buffer: Buffer) -> MetadataRecord:
    """Raises UnreadableRecord; the bytes have passed their CRC, so the cause is another version or a bug."""
    reader = Reader(buffer)
    try:
        kind = _record_type(reader.uvarint())
        version = reader.uvarint()
        first, last = kind.VERSIONS
        if not first <= version <= last:
            raise UnreadableRecord(
                f"a {kind.__name__} of version {version}, this node reads {first} to {last}: a newer version of "
                "Headrace wrote it, use that one or later"
            )
        record = _from_wire(kind.decode(reader, version))
    except (Malformed, ValueError) as problem:
        raise UnreadableRecord(f"a metadata record is damaged: {problem}") from problem
    if reader.remaining:
        raise UnreadableRecord(f"{reader.remaining} bytes follow a {kind.__name__}, where it should end")
    return record


def _record_type(key: int) -> type[WireRecord]:
    kind = _RECORD_TYPES.get(key)
    if kind is None:
        raise UnreadableRecord(
            f"a metadata record of the unknown kind {key}: a newer version of Headrace wrote it, use that one or later"
        )
    return kind


def _to_wire(record: MetadataRecord) -> WireRecord:
    match record:
        case PartitionChanged():
            return wire.PartitionChangedRecord(
                record.topic_id,
                record.partition,
                cast(list[int], list(record.isr)),
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                None if record.replicas is None else cast(list[int], list(record.replicas)),
                cast(list[int], list(record.adding)),
                cast(list[int], list(record.removing)),
                cast(list[int], list(record.eligible)),
            )
        case PartitionCreated():
            return wire.PartitionCreatedRecord(
                record.topic_id,
                record.partition,
                cast(list[int], list(record.replicas)),
                cast(list[int], list(record.isr)),
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
            )
        case TopicCreated():
            return wire.TopicCreatedRecord(record.topic_id, record.name)
        case TopicDeleted():
            return wire.TopicDeletedRecord(record.topic_id)
        case ConfigChanged(resource, name, value):
            return wire.ConfigChangedRecord(resource.kind, resource.name, name, value)
        case NodeRegistered():
            return wire.NodeRegisteredRecord(
                record.node_id,
                record.incarnation,
                [wire.NodeEndpoint(*endpoint) for endpoint in record.endpoints],
                record.rack,
                record.broker_epoch,
                record.directory,
                record.is_fenced,
                record.session_ms,
                record.start_count,
            )
        case NodeChanged():
            return wire.NodeChangedRecord(record.node_id, record.is_fenced, record.is_draining)
        case NodeRemoved():
            return wire.NodeRemovedRecord(record.node_id)
        case ProducerIdsReserved():
            return wire.ProducerIdsReservedRecord(record.node_id, record.next_producer_id)
        case ClusterNamed():
            return wire.ClusterNamedRecord(record.cluster_id, record.registrations)
        case ScramChanged() | AclChanged() | QuotaChanged():
            return _access_to_wire(record)
        case _:
            assert_never(record)


def _access_to_wire(record: AccessRecord) -> AccessWireRecord:
    match record:
        case ScramChanged(user, it):
            if it is None:
                return wire.ScramChangedRecord(user.name, user.mechanism, 0, None, None, None)
            return wire.ScramChangedRecord(
                user.name, user.mechanism, it.iterations, it.salt, it.stored_key, it.server_key
            )
        case AclChanged(acl, exists):
            return wire.AclChangedRecord(
                acl.resource_type,
                acl.name,
                acl.pattern,
                acl.principal.kind,
                acl.principal.name,
                acl.host,
                acl.operation,
                acl.permission,
                exists,
            )
        case QuotaChanged(entity, key, value):
            return wire.QuotaChangedRecord(
                [wire.QuotaEntityPart(*part) for part in entity],
                key,
                0.0 if value is None else value,
                value is not None,
            )
        case _:
            assert_never(record)


def _access_from_wire(body: AccessWireRecord) -> AccessRecord:
    match body:
        case wire.ScramChangedRecord():
            user = ScramUser(body.user, ScramMechanism(body.mechanism))
            if body.salt is None or body.stored_key is None or body.server_key is None:
                return ScramChanged(user, None)
            return ScramChanged(user, ScramVerifier(body.salt, body.iterations, body.stored_key, body.server_key))
        case wire.AclChangedRecord():
            acl = Acl(
                ResourceType(body.resource_type),
                body.resource_name,
                PatternType(body.pattern_type),
                Principal(body.principal_kind, body.principal_name),
                body.host,
                Operation(body.operation),
                Permission(body.permission),
            )
            return AclChanged(acl, body.exists)
        case wire.QuotaChangedRecord():
            entity = tuple(EntityPart(part.kind, part.name) for part in body.entity)
            return QuotaChanged(entity, body.quota, body.value if body.exists else None)
        case _:
            assert_never(body)


def _from_wire(body: WireRecord) -> MetadataRecord:
    match body:
        case wire.PartitionChangedRecord():
            return PartitionChanged(
                body.topic_id,
                body.partition,
                _node_ids(body.isr),
                NodeId(body.leader),
                Epoch(body.leader_epoch),
                body.partition_epoch,
                None if body.replicas is None else _node_ids(body.replicas),
                _node_ids(body.adding),
                _node_ids(body.removing),
                _node_ids(body.eligible),
            )
        case wire.PartitionCreatedRecord():
            return PartitionCreated(
                body.topic_id,
                body.partition,
                _node_ids(body.replicas),
                _node_ids(body.isr),
                NodeId(body.leader),
                Epoch(body.leader_epoch),
                body.partition_epoch,
            )
        case wire.TopicCreatedRecord():
            return TopicCreated(body.topic_id, body.name)
        case wire.TopicDeletedRecord():
            return TopicDeleted(body.topic_id)
        case wire.ConfigChangedRecord():
            resource = ConfigResource(ResourceKind(body.resource_kind), body.resource_name)
            return ConfigChanged(resource, body.name, body.value)
        case wire.NodeRegisteredRecord():
            endpoints = tuple(Endpoint(place.listener, place.host, place.port) for place in body.endpoints)
            return NodeRegistered(
                NodeId(body.node_id),
                body.incarnation,
                endpoints,
                body.rack,
                body.broker_epoch,
                body.directory,
                body.is_fenced,
                body.session_ms,
                body.life,
            )
        case wire.NodeChangedRecord():
            return NodeChanged(NodeId(body.node_id), body.is_fenced, body.is_draining)
        case wire.NodeRemovedRecord():
            return NodeRemoved(NodeId(body.node_id))
        case wire.ProducerIdsReservedRecord():
            return ProducerIdsReserved(NodeId(body.node_id), ProducerId(body.next_producer_id))
        case wire.ClusterNamedRecord():
            return ClusterNamed(body.cluster_id, body.registrations)
        case wire.ScramChangedRecord() | wire.AclChangedRecord() | wire.QuotaChangedRecord():
            return _access_from_wire(body)
        case _:
            assert_never(body)


def _node_ids(numbers: list[int]) -> tuple[NodeId, ...]:
    return tuple(cast(list[NodeId], numbers))
