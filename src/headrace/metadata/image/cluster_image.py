"""The cluster as one immutable value. `apply` is the only way from one image to the next, live and on reload.

Images share structure: a new image costs a few small nodes of a tree, however large the cluster is. Whoever holds an
image can read it in peace; nothing in it will change. Maps are never walked in their own order, which follows hashes
and differs from process to process: every listing here is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.image.access_image import EMPTY_ACCESS, AccessImage, with_changes
from headrace.metadata.image.maps import Map, OpenMap
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
from headrace.metadata.liveness import SESSION_MS
from headrace.metadata.placement.consistent_hashing import Load
from headrace.model.names import NO_NODE, Epoch, LogId, NodeId, ProducerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NO_CONFIGS: Map[str, str] = Map()


@dataclass(frozen=True, slots=True)
class Node:
    node_id: NodeId
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    broker_epoch: int = 0
    directory: bytes = b""
    is_fenced: bool = False
    is_draining: bool = False
    session_ms: int = SESSION_MS
    start_count: int = 0

    @property
    def may_lead(self) -> bool:
        return not self.is_fenced and not self.is_draining

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class Partition:
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    eligible: tuple[NodeId, ...] = ()
    """Not in sync, and yet they have all that was ever committed: see `metadata.eligible`."""

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_NODE

    @property
    def is_lost(self) -> bool:
        """Nobody has what was committed: whoever had it came back with another disk."""
        return not (self.has_leader or self.isr or self.eligible)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[NodeId, ...]:
        """The replicas that it is to have in the end; the first is the preferred leader."""
        return tuple(node_id for node_id in self.replicas if node_id not in self.removing)

    def after(self, record: PartitionChanged) -> Partition:
        return Partition(
            record.partition,
            self.replicas if record.replicas is None else record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.adding,
            record.removing,
            record.eligible,
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions, which are numbered from 0 without a gap."""

    topic_id: TopicId
    name: str
    partitions: Map[int, Partition]

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """That of the first partition; a topic without partitions (half created) has none. What moves counts once."""
        first = self.partitions.get(0)
        return 0 if first is None else len(first.target)

    def in_order(self) -> Iterator[Partition]:
        return (self.partitions[number] for number in range(len(self.partitions)))


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything the cluster has agreed on."""

    cluster_id: str | None
    nodes: Map[NodeId, Node]
    topics: Map[TopicId, Topic]
    topic_ids: Map[str, TopicId]  # by folded name, see `folded_name`
    configs: Map[ConfigResource, Map[str, str]]  # what was set; a resource without settings has no entry
    next_producer_id: ProducerId
    partition_count: int
    loads: Map[NodeId, Load]  # what is placed on each node
    registrations: int
    """How often nodes were registered: the highest broker epoch."""
    leaderless: Map[LogId, None]
    """Partitions that nobody leads."""
    access: AccessImage

    def apply(self, record: MetadataRecord) -> ClusterImage:
        return self.apply_all((record,))

    def apply_all(self, records: Iterable[MetadataRecord]) -> ClusterImage:
        """The image after all of `records`; cheaper than one by one, with the same result."""
        draft = Draft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()

    def topic(self, topic_id: TopicId) -> Topic | None:
        return self.topics.get(topic_id)

    def topic_named(self, name: str) -> Topic | None:
        topic = self.topic_like(name)
        return topic if topic is not None and topic.name == name else None

    def topic_like(self, name: str) -> Topic | None:
        """The topic of this name, or of one that differs only by '.' and '_'."""
        topic_id = self.topic_ids.get(folded_name(name))
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, partition: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def name_of(self, log_id: LogId) -> str:
        """As people know it. It need not exist; if its topic does not either, its id must do."""
        topic = self.topics.get(log_id.topic_id)
        return str(log_id) if topic is None else str(TopicPartition(topic.name, log_id.partition))

    def sorted_topics(self) -> list[Topic]:
        return sorted(self.topics.values(), key=lambda topic: topic.name)

    def sorted_leaderless(self) -> list[LogId]:
        return sorted(self.leaderless)

    def sorted_nodes(self) -> list[Node]:
        return [self.nodes[node_id] for node_id in self.live_nodes()]

    def live_nodes(self) -> list[NodeId]:
        """The nodes that clients may talk to."""
        return sorted(node_id for node_id, node in self.nodes.items() if not node.is_fenced)

    def is_here(self, node_id: NodeId) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and not node.is_fenced

    def node_may_lead(self, node_id: NodeId) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and node.may_lead

    def configs_of(self, resource: ConfigResource) -> Map[str, str]:
        """What was set for `resource`, without defaults."""
        return self.configs.get(resource, NO_CONFIGS)


EMPTY_IMAGE = ClusterImage(
    cluster_id=None,
    nodes=Map(),
    topics=Map(),
    topic_ids=Map(),
    configs=Map(),
    next_producer_id=ProducerId(0),
    partition_count=0,
    loads=Map(),
    registrations=0,
    leaderless=Map(),
    access=EMPTY_ACCESS,
)


def folded_name(name: str) -> str:
    """Names that differ only by '.' and '_' collide, as metrics cannot tell them apart; a folded name is one topic."""
    return name.replace(".", "_")


class Draft:
    """An image on its way to the next one. It may take its time: the image that it came from stays as it is.

    Trees are opened for writing once and closed once, so a topic with 4,000 partitions does not copy its path 4,000
    times. A record that does not fit the image means that the log or the code is broken: an assert stops the node.
    """

    __slots__ = (
        "_access",
        "_acls",
        "_configs",
        "_image",
        "_leaderless",
        "_loads",
        "_partition_count",
        "_partitions",
        "_topic_ids",
        "_topics",
    )

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: OpenMap[TopicId, Topic] = image.topics.open()
        self._topic_ids: OpenMap[str, TopicId] = image.topic_ids.open()
        self._configs: OpenMap[ConfigResource, Map[str, str]] = image.configs.open()
        self._loads: OpenMap[NodeId, Load] = image.loads.open()
        self._leaderless: OpenMap[LogId, None] = image.leaderless.open()
        self._partitions: dict[TopicId, OpenMap[int, Partition]] = {}
        self._partition_count = image.partition_count
        self._access = image.access
        self._acls: list[AclChanged] = []
        """Applied together at the end."""

    def finish(self) -> ClusterImage:
        for topic_id, partitions in self._partitions.items():
            self._topics[topic_id] = replace(self._topics[topic_id], partitions=partitions.close())
        if self._acls:
            self._access = replace(self._access, acls=with_changes(self._access.acls, self._acls))
        return replace(
            self._image,
            topics=self._topics.close(),
            topic_ids=self._topic_ids.close(),
            configs=self._configs.close(),
            partition_count=self._partition_count,
            loads=self._loads.close(),
            leaderless=self._leaderless.close(),
            access=self._access,
        )

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case PartitionChanged():
                self._change_partition(record)
            case PartitionCreated():
                self._create_partition(record)
            case TopicCreated():
                self._create_topic(record)
            case TopicDeleted():
                self._delete_topic(record)
            case ConfigChanged():
                self._change_config(record)
            case NodeRegistered():
                self._register_node(record)
            case NodeChanged():
                self._change_node(record)
            case NodeRemoved():
                self._image = replace(self._image, nodes=self._image.nodes.delete(record.node_id))
            case ProducerIdsReserved():
                assert record.next_producer_id >= self._image.next_producer_id, record
                self._image = replace(self._image, next_producer_id=record.next_producer_id)
            case ClusterNamed():
                assert self._image.cluster_id in {None, record.cluster_id}, record
                self._image = replace(
                    self._image,
                    cluster_id=record.cluster_id,
                    registrations=max(self._image.registrations, record.registrations),
                )
            case AclChanged():
                self._acls.append(record)
            case ScramChanged() | QuotaChanged():
                self._access = self._access.after(record)
            case _:
                assert_never(record)

    def _create_topic(self, record: TopicCreated) -> None:
        folded = folded_name(record.name)
        assert record.topic_id not in self._topics, record
        assert folded not in self._topic_ids, record
        self._topics[record.topic_id] = Topic(record.topic_id, record.name, Map())
        self._topic_ids[folded] = record.topic_id

    def _delete_topic(self, record: TopicDeleted) -> None:
        topic = self._topics.pop(record.topic_id)
        opened = self._partitions.pop(record.topic_id, None)
        partitions = topic.partitions if opened is None else opened.close()
        self._partition_count -= len(partitions)
        for partition in partitions.values():
            self._weigh(partition, -1)
            self._leaderless.discard(LogId(record.topic_id, partition.partition))
        del self._topic_ids[folded_name(topic.name)]
        self._configs.discard(ConfigResource(ResourceKind.TOPIC, topic.name))

    def _create_partition(self, record: PartitionCreated) -> None:
        partitions = self._partitions_of(record.topic_id)
        assert record.partition == len(partitions), record
        partitions[record.partition] = created = Partition(
            record.partition,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
        )
        self._partition_count += 1
        self._weigh(created, 1)
        self._note_leader(record.topic_id, created)

    def _change_partition(self, record: PartitionChanged) -> None:
        partitions = self._partitions_of(record.topic_id)
        before = partitions[record.partition]
        assert record.partition_epoch == before.partition_epoch + 1, (before, record)
        assert record.leader_epoch >= before.leader_epoch, (before, record)
        partitions[record.partition] = after = before.after(record)
        if after.target != before.target:
            self._weigh(before, -1)
            self._weigh(after, 1)
        if after.has_leader != before.has_leader:
            self._note_leader(record.topic_id, after)

    def _note_leader(self, topic_id: TopicId, partition: Partition) -> None:
        log_id = LogId(topic_id, partition.partition)
        if partition.has_leader:
            self._leaderless.discard(log_id)
        else:
            self._leaderless[log_id] = None

    def _weigh(self, partition: Partition, count: int) -> None:
        """Put a partition on its nodes' scales, or take it off. What is moving weighs where it will be."""
        for place, node_id in enumerate(partition.target):
            replicas, leaders = self._loads.get(node_id, Load())
            self._loads[node_id] = Load(replicas + count, leaders + (count if place == 0 else 0))
            if self._loads[node_id] == Load():
                del self._loads[node_id]

    def _partitions_of(self, topic_id: TopicId) -> OpenMap[int, Partition]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = self._topics[topic_id].partitions.open()
            self._partitions[topic_id] = partitions
        return partitions

    def _change_config(self, record: ConfigChanged) -> None:
        before = self._configs.get(record.resource, NO_CONFIGS)
        if record.value is not None:
            after = before.set(record.name, record.value)
        else:
            after = before.delete(record.name) if record.name in before else before
        if after:
            self._configs[record.resource] = after
        else:
            self._configs.discard(record.resource)

    def _register_node(self, record: NodeRegistered) -> None:
        node = Node(
            record.node_id,
            record.incarnation,
            record.endpoints,
            record.rack,
            record.broker_epoch,
            record.directory,
            record.is_fenced,
            session_ms=record.session_ms,
            start_count=record.start_count,
        )
        self._image = replace(
            self._image,
            nodes=self._image.nodes.set(record.node_id, node),
            registrations=max(self._image.registrations, record.broker_epoch),
        )

    def _change_node(self, record: NodeChanged) -> None:
        before = self._image.nodes[record.node_id]
        after = replace(before, is_fenced=record.is_fenced, is_draining=record.is_draining)
        self._image = replace(self._image, nodes=self._image.nodes.set(record.node_id, after))


@dataclass(frozen=True, slots=True)
class Changes:
    """What a run of records touched, each thing once, in the order of first mention.

    A topic that was deleted is in `deleted_topics` only, whatever else happened to it before.
    """

    partitions: tuple[LogId, ...]
    deleted_topics: tuple[TopicId, ...]
    configs: tuple[ConfigResource, ...]
    nodes: tuple[NodeId, ...]

    @property
    def topics(self) -> tuple[TopicId, ...]:
        """The topics that have a new or changed partition."""
        return tuple(dict.fromkeys(log_id.topic_id for log_id in self.partitions))


def changes(records: Iterable[MetadataRecord]) -> Changes:
    """What somebody who follows the image must look at again after `records` were applied."""
    partitions: dict[LogId, None] = {}
    deleted: dict[TopicId, None] = {}
    configs: dict[ConfigResource, None] = {}
    nodes: dict[NodeId, None] = {}
    for record in records:
        match record:
            case PartitionCreated() | PartitionChanged():
                partitions[LogId(record.topic_id, record.partition)] = None
            case TopicDeleted():
                deleted[record.topic_id] = None
            case ConfigChanged():
                configs[record.resource] = None
            case NodeRegistered() | NodeChanged() | NodeRemoved():
                nodes[record.node_id] = None
            case TopicCreated() | ProducerIdsReserved() | ClusterNamed():
                pass
            case ScramChanged() | AclChanged() | QuotaChanged():
                pass  # who needs them looks at the image's part, which is another object when it has changed
            case _:
                assert_never(record)
    return Changes(
        partitions=tuple(log_id for log_id in partitions if log_id.topic_id not in deleted),
        deleted_topics=tuple(deleted),
        configs=tuple(configs),
        nodes=tuple(nodes),
    )


def difference(before: ClusterImage, after: ClusterImage) -> Changes:
    """What somebody who follows the image must look at again when it was replaced as a whole, but for the partitions:
    those are many, see `changed_partitions`."""
    resources = sorted({*before.configs, *after.configs})
    return Changes(
        partitions=(),
        deleted_topics=deleted_topics(before, after),
        configs=tuple(it for it in resources if before.configs_of(it) != after.configs_of(it)),
        nodes=tuple(sorted({*before.nodes, *after.nodes})),
    )


def deleted_topics(before: ClusterImage, after: ClusterImage) -> tuple[TopicId, ...]:
    return tuple(topic.topic_id for topic in before.sorted_topics() if topic.topic_id not in after.topics)


def changed_partitions(before: ClusterImage, topic: Topic) -> Iterator[LogId]:
    """Those of a topic that were not so before."""
    for partition in topic.in_order():
        if before.partition(topic.topic_id, partition.partition) != partition:
            yield LogId(topic.topic_id, partition.partition)
