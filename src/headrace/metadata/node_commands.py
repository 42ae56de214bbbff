"""What nodes ask of the controller for themselves: to be known, to lead, to hand out producer ids."""

from __future__ import annotations

from typing import NamedTuple

from headrace.metadata.controller import Decision
from headrace.metadata.image import ClusterImage, Node, Partition, Topic
from headrace.metadata.records import (
    ClusterNamed,
    Endpoint,
    MetadataRecord,
    NodeRegistered,
    PartitionChanged,
    ProducerIdsReserved,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, NodeId, ProducerId

PRODUCER_IDS_PER_BLOCK = 1_000  # one metadata record per thousand new producers; what a node does not use is lost
PRODUCER_ID_MAX = 2**63 - 1  # the field's size


class ProducerIdBlock(NamedTuple):
    """Producer ids that belong to one node: from `first` on, below `next`."""

    first: ProducerId
    next: ProducerId


def name_cluster(image: ClusterImage, cluster_id: str) -> Decision[str]:
    """Give the cluster its id, once. The response is the id that holds."""
    if image.cluster_id is not None:
        return Decision((), image.cluster_id)
    return Decision((ClusterNamed(cluster_id),), cluster_id)


def register_node(
    image: ClusterImage,
    node_id: NodeId,
    incarnation: bytes,
    endpoints: tuple[Endpoint, ...] = (),
    rack: str | None = None,
) -> Decision[Node]:
    """A node starts: it is made known, and takes a new leader epoch for everything that it leads.

    Without the new epoch, records that its last life wrote and lost in a crash could not be told from those that this
    life writes at the same offsets. Asking twice in one life changes nothing.
    """
    node = Node(node_id, incarnation, endpoints, rack)
    if image.nodes.get(node_id) == node:
        return Decision((), node)
    records: list[MetadataRecord] = [NodeRegistered(node_id, incarnation, endpoints, rack)]
    known = image.nodes.get(node_id)
    if known is None or known.incarnation != incarnation:
        records += _leaderships_begun(image, node_id)
    return Decision(tuple(records), node)


def _leaderships_begun(image: ClusterImage, node_id: NodeId) -> list[PartitionChanged]:
    return [
        _leadership_begun(topic, partition, node_id)
        for topic in image.sorted_topics()
        for partition in topic.in_order()
        if partition.leader == node_id or (partition.leader == NO_NODE and node_id in partition.isr)
    ]


def _leadership_begun(topic: Topic, partition: Partition, leader: NodeId) -> PartitionChanged:
    return PartitionChanged(
        topic.topic_id,
        partition.partition,
        isr=partition.isr,
        leader=leader,
        leader_epoch=Epoch(partition.leader_epoch + 1),
        partition_epoch=partition.partition_epoch + 1,
    )


def reserve_producer_ids(image: ClusterImage, node_id: NodeId) -> Decision[ProducerIdBlock]:
    if node_id not in image.nodes:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}; it must register first")
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    block = ProducerIdBlock(first, ProducerId(first + PRODUCER_IDS_PER_BLOCK))
    return Decision((ProducerIdsReserved(node_id, block.next),), block)
