"""What the controller sees to by itself, every so often: moves that have ended, internal topics that can be safer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.commands.assignments import usable_nodes
from headrace.metadata.commands.partition_commands import Reassignment, ended_move, reassign
from headrace.metadata.configs.internal_topics import AUDIT, CONSUMER_OFFSETS, INTERNAL_REPLICAS, TRANSACTION_STATE
from headrace.metadata.decisions.decision import Decision
from headrace.metadata.elections.partition_leaders import taken_from
from headrace.metadata.placement.consistent_hashing import Loads, widened
from headrace.model.names import LogId

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import ClusterImage, Partition
    from headrace.metadata.image.records import PartitionChanged
    from headrace.model.names import TopicId

WIDENED_AT_ONCE: Final = 4  # partitions: what clients do has the disks and the network first


def taken_from_absent(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
    """Nodes that are away still lead, or are in sync with others. A controller was lost before it had come to that."""
    parts = (image.nodes.get(node_id) for node_id in (partition.leader, *partition.isr))
    return taken_from(image, topic_id, partition, *(node.node_id for node in parts if node and node.is_fenced))


def end_of_move(image: ClusterImage, topic_id: TopicId, partition: Partition) -> PartitionChanged | None:
    """All new replicas are in sync. Most moves end with the change of the in-sync set that completes them. But if none
    of the new replicas may lead in that moment, there may be no other change that would."""
    if not partition.is_moving:
        return None
    return ended_move(image, LogId(topic_id, partition.partition), partition, partition.isr)


def widen_internal_topics(image: ClusterImage) -> Decision[int]:
    """Give partitions of internal topics more replicas, as many as the nodes allow. The response is how many.

    They were created when there were fewer nodes, perhaps only one. A few at a time; the next follow when these are
    in sync.
    """
    nodes = usable_nodes(image)
    wanted = min(INTERNAL_REPLICAS, len(nodes))
    topics = [image.topic_named(name) for name in (CONSUMER_OFFSETS, TRANSACTION_STATE, AUDIT)]
    ours = [
        (LogId(topic.topic_id, partition.partition), partition)
        for topic in topics
        if topic is not None
        for partition in topic.in_order()
    ]
    free = WIDENED_AT_ONCE - sum(partition.is_moving for _, partition in ours)
    narrow = [it for it in ours if len(it[1].replicas) < wanted and not it[1].is_moving and it[1].has_leader]
    loads = Loads(image.loads)
    moves = []
    for log_id, partition in narrow[: max(free, 0)]:
        replicas = widened(nodes, loads, log_id, partition.replicas, wanted)
        loads.remove(partition.replicas)
        loads.add(replicas)
        moves.append(Reassignment(log_id, replicas))
    return Decision(reassign(image, moves).records, len(moves))
