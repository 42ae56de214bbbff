"""FindCoordinator (key 10): which node keeps a group or a transactional id. The first who asks creates its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE
from headrace.servers.kafka.handlers.topics.metadata import address_of, likely_successor, serving_leader
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.partitioning import partition_for_coordinated

if TYPE_CHECKING:
    from headrace.model.names import NodeId
    from headrace.runtime.network import Address
    from headrace.servers.kafka.interfaces import Request

BATCHED_FROM = 4
TOPIC_OF_KIND = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}


async def handle(message: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
    if request.version >= BATCHED_FROM:
        found = [await _find(key, message.key_type, request) for key in dict.fromkeys(message.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(message.key, message.key_type, request)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _find(key: str, kind: int, request: Request) -> Coordinator:
    try:
        topic = TOPIC_OF_KIND.get(kind)
        if topic is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there are coordinators of kind 0 and 1, none of {kind}")
        await request.node.coordinators.prepare(topic)
        node_id, address = _coordinator(topic, key, request)
    except Refusal as refusal:
        return Coordinator(key, NO_NODE, "", -1, refusal.code, refusal.message)
    return Coordinator(key, node_id, address.host, address.port, ErrorCode.NONE, None)


def _coordinator(topic: str, key: str, request: Request) -> tuple[NodeId, Address]:
    """Whoever leads the partition that the key belongs to, and is there: who asks would try no other for long."""
    image = request.node.image
    found = image.topic_named(topic)
    node = None
    if found is not None:
        partition = found.partitions[partition_for_coordinated(key, found.partition_count)]
        leader = serving_leader(request.node, found, partition)
        node = image.nodes.get(likely_successor(request.node, partition) if leader == NO_NODE else leader)
    address = None if node is None else address_of(request, node)
    if node is None or address is None:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads the part of {topic} that {key!r} belongs to")
    return node.node_id, address
