"""Replicas for new partitions: checked if a client assigned them by hand, spread evenly if not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.placement.consistent_hashing import Loads, UsableNode, place_behind, place_partitions
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import LogId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import NodeId, TopicId


class ManualAssignment(NamedTuple):
    """What a client wrote. `partition` None means: the next one (CreatePartitions does not number them)."""

    partition: int | None
    replicas: tuple[NodeId, ...]


class CreatedPartition(NamedTuple):
    partition: int
    replicas: tuple[NodeId, ...]


def usable_nodes(image: ClusterImage) -> list[UsableNode]:
    """The nodes that take new replicas."""
    return [UsableNode(node.node_id, node.rack) for node in image.sorted_nodes() if node.may_lead]


def spread(
    image: ClusterImage, topic_id: TopicId, first_partition: int, partition_count: int, replication_factor: int
) -> list[CreatedPartition]:
    """Over the nodes that take new replicas. If they are too few, others get some as well, as in Kafka: they are away
    or draining now, and in sync when they have come back. Without that a lost node would keep topics from being made.
    """
    nodes = usable_nodes(image)
    if replication_factor < 1:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor is at least 1, or -1 for the default; not {replication_factor}",
        )
    if replication_factor > len(image.nodes):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs as many nodes, the cluster has {len(image.nodes)}",
        )
    if not nodes:
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "every node is away or draining, and takes no partition")
    log_ids = [LogId(topic_id, first_partition + number) for number in range(partition_count)]
    loads = Loads(image.loads)
    placed = place_partitions(nodes, loads, log_ids, min(replication_factor, len(nodes)))
    if replication_factor > len(nodes):
        absent = [UsableNode(it.node_id, it.rack) for _, it in sorted(image.nodes.items()) if not it.may_lead]
        placed = place_behind(nodes, placed, absent, loads, log_ids, replication_factor)
    return [CreatedPartition(log_id.partition, replicas) for log_id, replicas in zip(log_ids, placed, strict=True)]


def checked_assignments(
    image: ClusterImage,
    assignments: Sequence[ManualAssignment],
    first_partition: int,
    replication_factor: int | None = None,
) -> list[CreatedPartition]:
    """The assigned partitions in order. Without a `replication_factor` the first one sets it for all."""
    numbered = [
        CreatedPartition(first_partition + position if partition is None else partition, replicas)
        for position, (partition, replicas) in enumerate(assignments)
    ]
    numbered.sort(key=lambda created: created.partition)
    expected = list(range(first_partition, first_partition + len(numbered)))
    if [created.partition for created in numbered] != expected:
        raise _wrong_assignment(f"partitions are numbered from {first_partition} on, each once and without a gap")
    replication_factor = replication_factor or len(numbered[0].replicas)
    for created in numbered:
        _check_replicas(image, created, replication_factor)
    return numbered


def _check_replicas(image: ClusterImage, created: CreatedPartition, replication_factor: int) -> None:
    partition, replicas = created
    if not replicas:
        raise _wrong_assignment(f"partition {partition} has no replica")
    if len(set(replicas)) < len(replicas):
        raise _wrong_assignment(f"partition {partition} has two replicas on one node: {list(replicas)}")
    if len(replicas) != replication_factor:
        raise _wrong_assignment(
            f"partition {partition} has {len(replicas)} replicas, the others have {replication_factor}"
        )
    unknown = [node_id for node_id in replicas if node_id not in image.nodes]
    if unknown:
        raise _wrong_assignment(f"partition {partition} is assigned to nodes that do not exist: {unknown}")
    if not any(image.is_here(node_id) for node_id in replicas):
        raise _wrong_assignment(f"partition {partition} is assigned to nodes that are all away: {list(replicas)}")


def _wrong_assignment(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
