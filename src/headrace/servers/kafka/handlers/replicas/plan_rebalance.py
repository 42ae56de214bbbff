"""PlanRebalance (key 20009, ours): which replicas to move. Whoever asked looks at it, and moves what it likes.

A plan never takes a replica away without giving another: what has no other place stays, and is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation
from headrace.metadata.commands.assignments import usable_nodes
from headrace.metadata.commands.partition_commands import plan_rebalance
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, LogId, NodeId
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.plan_rebalance import (
    MovingPartition,
    MovingTopic,
    PlanRebalanceRequest,
    PlanRebalanceResponse,
)

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

PLANS: Final = "plans"


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=words_of(PlanRebalanceResponse))


async def handle(
    message: PlanRebalanceRequest, request: Request, quorum: Quorum, world: World
) -> PlanRebalanceResponse:
    image = quorum.image
    giver = NodeId(message.away_from)
    if not quorum.is_leader:  # what this node knows may be old, and nothing could be moved anyway
        refusal = quorum.no_controller()
        return PlanRebalanceResponse(refusal.code, refusal.message)
    if giver != NO_NODE and giver not in image.nodes:
        return PlanRebalanceResponse(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {giver}")
    # In a thread: the image does not change, and a plan for 20,000 partitions takes a third of a second.
    plan = await world.threads.run(lambda: plan_rebalance(image) if usable_nodes(image) else [], lane=PLANS)
    targets = {move.log_id: move.replicas or () for move in plan}
    topics: dict[str, list[MovingPartition]] = {}
    for topic, partition in partitions_of(image):
        target = targets.get(LogId(topic.topic_id, partition.partition))
        if (
            target is None
            or len(target) < len(partition.target)
            or (giver != NO_NODE and giver not in partition.target)
        ):
            continue
        topics.setdefault(topic.name, []).append(
            MovingPartition(partition.partition, list(partition.target), list(target))
        )
    return PlanRebalanceResponse(
        topics=[MovingTopic(name, partitions) for name, partitions in sorted(topics.items())],
        stuck_replicas=_stuck(image, giver),
    )


def _stuck(image: ClusterImage, giver: NodeId) -> int:
    """Replicas on nodes that should have none, of partitions that need more nodes than there would be."""
    usable = {node.node_id for node in usable_nodes(image)}
    return sum(
        node_id not in usable and giver in {NO_NODE, node_id}
        for _, partition in partitions_of(image)
        if len(partition.target) > len(usable)
        for node_id in partition.target
    )
