"""The records that make the cluster: everything it knows is the sum of these, applied in order.

Each says what is now so, in absolute values: an epoch is written as it stands, not as a step. So a record can be
checked against the image that it meets, and reading one does not need the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.liveness import SESSION_MS

if TYPE_CHECKING:
    from headrace.access.authentication.credentials import ScramUser, ScramVerifier
    from headrace.access.quotas.entity import QuotaEntity
    from headrace.access.rules.acl import Acl
    from headrace.metadata.configs.config_keys import ConfigResource
    from headrace.model.names import Epoch, NodeId, ProducerId, TopicId


class Endpoint(NamedTuple):
    """Where a node can be reached, under the name of one of its listeners."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterNamed:
    """The cluster has its id; said once, by whoever starts the cluster first."""

    cluster_id: str
    registrations: int = 0
    """In a snapshot: how often nodes were registered before it, those that are gone included."""


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """A node has started. `incarnation` is chosen anew on each start: the same node id, but another process.

    `broker_epoch` counts registrations over all nodes, so that one registration can be told from every other by a
    number.
    """

    node_id: NodeId
    incarnation: bytes
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    broker_epoch: int = 0
    directory: bytes = b""
    is_fenced: bool = False
    session_ms: int = SESSION_MS
    """For so long the node goes on leading without hearing from a controller."""
    start_count: int = 0
    """How often its disk was started; 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A fenced node serves nothing, and is in sync only with what it alone has. A draining one is to lead nothing."""

    node_id: NodeId
    is_fenced: bool
    is_draining: bool


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """An operator has taken the node out of the cluster; it has no replica any more."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic_id: TopicId
    name: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The topic, its partitions and its settings are gone. The same name may come back under another id."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    """A new partition, always the next number of its topic. The first replica is the preferred leader."""

    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """Who leads and who is in sync from now on. `leader` is NO_NODE while nobody can lead.

    `partition_epoch` counts every change; `leader_epoch` only those that make the leader begin anew. `replicas` None:
    as before. While replicas move, `replicas` holds the old and the new ones, and `adding` and `removing` say which.
    `eligible` is not for commands to fill in: see `metadata.eligible`.
    """

    topic_id: TopicId
    partition: int
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int
    replicas: tuple[NodeId, ...] | None = None
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    eligible: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A setting has this text, or, if None, its default again."""

    resource: ConfigResource
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsReserved:
    """The node may hand out every producer id below `next_producer_id` that was not reserved before."""

    node_id: NodeId
    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True)
class ScramChanged:
    """The user logs in with the password of this verifier, or, if None, cannot with this mechanism any more."""

    user: ScramUser
    verifier: ScramVerifier | None


@dataclass(frozen=True, slots=True)
class AclChanged:
    """The access rule exists from now on, or no longer."""

    acl: Acl
    exists: bool


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A quota has this value, or, if None, is none any more."""

    entity: QuotaEntity
    key: str
    value: float | None


AccessRecord = ScramChanged | AclChanged | QuotaChanged

MetadataRecord = (
    ClusterNamed
    | NodeRegistered
    | NodeChanged
    | NodeRemoved
    | TopicCreated
    | TopicDeleted
    | PartitionCreated
    | PartitionChanged
    | ConfigChanged
    | ProducerIdsReserved
    | AccessRecord
)
