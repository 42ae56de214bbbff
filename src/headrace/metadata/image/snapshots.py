"""An image as records: the shortest log that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.image.records import (
    ClusterNamed,
    ConfigChanged,
    MetadataRecord,
    NodeChanged,
    NodeRegistered,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    TopicCreated,
)
from headrace.model.names import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.metadata.image.cluster_image import ClusterImage, Node, Partition
    from headrace.model.names import TopicId


def snapshot_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Applied in this order to an empty image they give the same image again."""
    if image.cluster_id is not None:
        yield ClusterNamed(image.cluster_id, image.registrations)
    for node_id in sorted(image.nodes):
        yield from _node(image.nodes[node_id])
    for topic in image.sorted_topics():
        yield TopicCreated(topic.topic_id, topic.name)
        for partition in topic.in_order():
            yield from _partition(topic.topic_id, partition)
    for resource in sorted(image.configs):
        configs = image.configs[resource]
        for name in sorted(configs):
            yield ConfigChanged(resource, name, configs[name])
    yield from image.access.records()
    if image.next_producer_id:
        yield ProducerIdsReserved(NO_NODE, image.next_producer_id)


def _node(node: Node) -> Iterator[MetadataRecord]:
    yield NodeRegistered(
        node.node_id,
        node.incarnation,
        node.endpoints,
        node.rack,
        node.broker_epoch,
        node.directory,
        node.is_fenced,
        node.session_ms,
        node.start_count,
    )
    if node.is_draining:
        yield NodeChanged(node.node_id, node.is_fenced, node.is_draining)


def _partition(topic_id: TopicId, partition: Partition) -> Iterator[MetadataRecord]:
    # What no partition begins with is told by a change, which is one epoch later than what it changes.
    is_changed = partition.is_moving or bool(partition.eligible)
    epoch = partition.partition_epoch - is_changed
    yield PartitionCreated(
        topic_id,
        partition.partition,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        epoch,
    )
    if is_changed:
        yield PartitionChanged(
            topic_id,
            partition.partition,
            partition.isr,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            adding=partition.adding,
            removing=partition.removing,
            eligible=partition.eligible,
        )
