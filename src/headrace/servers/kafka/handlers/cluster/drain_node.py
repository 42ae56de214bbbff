"""DrainNode (key 20008, ours): a node is to be emptied, or to take its part again. Kafka has no request for this.

Others lead at once, and nothing new is placed there. Its replicas are moved by reassignments, which are asked for
besides. It lasts until it is taken back, or the node starts anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.node_commands import drain_node, undrain_node
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.drain_node import DrainNodeRequest, DrainNodeResponse

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=words_of(DrainNodeResponse))


async def handle(message: DrainNodeRequest, request: Request, commands: Commands) -> DrainNodeResponse:
    node_id = NodeId(message.node_id)
    try:
        if message.is_draining:
            await commands.submit(lambda image: _drained(image, node_id))
        else:
            await commands.submit(lambda image: undrain_node(image, node_id))
    except Refusal as refusal:
        return DrainNodeResponse(refusal.code, refusal.message)
    return DrainNodeResponse(ErrorCode.NONE)


def _drained(image: ClusterImage, node_id: NodeId) -> Decision[None]:
    others = [node for node in image.nodes.values() if node.may_lead and node.node_id != node_id]
    if node_id in image.nodes and not others:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"no other node could take over what node {node_id} has")
    return drain_node(image, node_id)
