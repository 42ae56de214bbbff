"""A new cluster out of one survivor of the old: what it begins with, and what of the old one may be lost.

The survivor's image is all that is left to go by. It may be older than what the others agreed on in the end: a node
that was cut off knows nothing of later topics, later leaders, or that it left an in-sync set. So numbers that must only
ever grow leap ahead, and what is said of a partition is said as this node last knew it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.records import (
    ClusterNamed,
    ConfigChanged,
    MetadataRecord,
    NodeRegistered,
    PartitionCreated,
    ProducerIdsReserved,
    TopicCreated,
)
from headrace.model.names import NO_EPOCH, NO_NODE, Epoch, LogId, ProducerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.metadata.image.cluster_image import ClusterImage, Node, Partition, Topic
    from headrace.model.names import NodeId

EPOCH_LEAP: Final = 10_000
"""Others may have led in epochs that this node never heard of. Clients that did take a smaller one for old news, and
would wait for a leader that never comes."""
PRODUCER_ID_LEAP: Final = 1_000_000
"""Likewise: an id that is handed out twice would have its records taken for repeats."""


class Fate(Enum):
    KEPT = "kept"
    """Its copy was in sync, as this node last knew: it has all that was acknowledged with acks=all by then."""
    BEHIND = "behind"
    """Its copy was not in sync: what was acknowledged later than its end is lost."""
    LOST = "lost"
    """This node has no copy."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What the survivor's disk holds of a partition."""

    start_offset: int
    end_offset: int
    last_epoch: Epoch = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an operator may choose."""

    keep_replicas: bool = False
    """Partitions keep as many replicas, on the nodes they were on: whoever comes with such an id and an empty disk
    fetches them by itself. Until then they lack copies, and `min.insync.replicas` may refuse writes."""
    lost_stay_offline: bool = False
    """Nobody leads a lost partition until somebody asks for an unclean election. Else it begins empty."""


NO_WISHES: Final = Wishes()


@dataclass(frozen=True, slots=True)
class Rescued:
    """One partition, before and after."""

    name: TopicPartition
    log_id: LogId
    before: Partition
    copy: Copy | None
    fate: Fate


@dataclass(frozen=True, slots=True)
class Rescue:
    image: ClusterImage
    partitions: tuple[Rescued, ...]
    """In the order of their names."""

    def of_fate(self, fate: Fate) -> list[Rescued]:
        return [rescued for rescued in self.partitions if rescued.fate is fate]


def rescue(
    image: ClusterImage,
    survivor: NodeId,
    directory: bytes,
    cluster_id: str,
    copies: Mapping[LogId, Copy],
    wishes: Wishes = NO_WISHES,
) -> Rescue:
    """`directory` names the survivor's disk in the new cluster, `copies` are the logs that it has."""
    partitions = tuple(
        _rescued(topic, partition, survivor, copies.get(LogId(topic.topic_id, partition.partition)))
        for topic, partition in partitions_of(image)
    )
    after = EMPTY_IMAGE.apply_all(_records(image, survivor, directory, cluster_id, partitions, wishes))
    return Rescue(after, partitions)


def fate_of(partition: Partition, survivor: NodeId, copy: Copy | None) -> Fate:
    if copy is None or survivor not in partition.replicas:
        return Fate.LOST
    return Fate.KEPT if survivor in {*partition.isr, *partition.eligible} else Fate.BEHIND


def _rescued(topic: Topic, partition: Partition, survivor: NodeId, copy: Copy | None) -> Rescued:
    name, log_id = TopicPartition(topic.name, partition.partition), LogId(topic.topic_id, partition.partition)
    return Rescued(name, log_id, partition, copy, fate_of(partition, survivor, copy))


def _records(
    image: ClusterImage,
    survivor: NodeId,
    directory: bytes,
    cluster_id: str,
    partitions: Sequence[Rescued],
    wishes: Wishes,
) -> Iterator[MetadataRecord]:
    yield ClusterNamed(cluster_id, image.registrations)
    kept = {rescued.log_id: _partition(rescued, survivor, wishes) for rescued in partitions}
    yield from _nodes(image, survivor, directory, kept.values())
    for topic in image.sorted_topics():
        yield TopicCreated(topic.topic_id, topic.name)
        yield from (kept[LogId(topic.topic_id, number)] for number in range(topic.partition_count))
    for resource in sorted(image.configs):
        configs = image.configs[resource]
        yield from (ConfigChanged(resource, name, configs[name]) for name in sorted(configs))
    yield ProducerIdsReserved(NO_NODE, ProducerId(image.next_producer_id + PRODUCER_ID_LEAP))


def _partition(rescued: Rescued, survivor: NodeId, wishes: Wishes) -> PartitionCreated:
    """Nobody leads before the survivor has started and was let in; then it does, for it alone is in sync."""
    before, copy = rescued.before, rescued.copy
    last_epoch = max(before.leader_epoch, NO_EPOCH if copy is None else copy.last_epoch)
    is_offline = rescued.fate is Fate.LOST and wishes.lost_stay_offline
    return PartitionCreated(
        *rescued.log_id,
        replicas=_replicas(before, survivor) if wishes.keep_replicas else (survivor,),
        isr=() if is_offline else (survivor,),
        leader=NO_NODE,
        leader_epoch=Epoch(last_epoch + EPOCH_LEAP),
        partition_epoch=before.partition_epoch + 1,
    )


def _replicas(before: Partition, survivor: NodeId) -> tuple[NodeId, ...]:
    """As many as before, the survivor among them. A move that was under way is where it was to end."""
    target = before.target or before.replicas
    if survivor in target:
        return target
    return (survivor, *target[: len(target) - 1])


def _nodes(
    image: ClusterImage, survivor: NodeId, directory: bytes, partitions: Iterable[PartitionCreated]
) -> Iterator[MetadataRecord]:
    """The survivor, and those whose place is kept: as nodes that are away, and whose disks nobody knows."""
    placed = {node_id for partition in partitions for node_id in partition.replicas}
    for node_id in sorted({survivor, *placed}):
        known = image.nodes.get(node_id)
        if known is not None:
            yield _away(known if node_id != survivor else replace(known, directory=directory), survivor)


def _away(node: Node, survivor: NodeId) -> NodeRegistered:
    is_survivor = node.node_id == survivor
    return NodeRegistered(
        node.node_id,
        node.incarnation,
        node.endpoints if is_survivor else (),  # somebody of the old cluster may still be there
        node.rack,
        node.broker_epoch,
        node.directory if is_survivor else b"",
        is_fenced=True,
        session_ms=node.session_ms,
    )
