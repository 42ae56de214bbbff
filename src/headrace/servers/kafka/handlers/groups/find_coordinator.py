"""FindCoordinator (key 10): which node keeps a group or a transactional id. The first who asks creates its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE
from headrace.servers.kafka.handlers.topics.addresses import address_of
from headrace.servers.kafka.handlers.topics.leaders import ToldLeaders
from headrace.servers.kafka.rights import ITSELF, NEWEST, Choice, Each, Right, Rights
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.partitioning import partition_for_coordinated

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.membership.reachability import Reachability
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.model.names import NodeId
    from headrace.runtime.network import Address
    from headrace.servers.kafka.interfaces import Request

BATCHED_FROM = 4
TOPIC_OF_KIND = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}


def _refused(key: str, refusal: Refusal) -> Coordinator:
    return Coordinator(key, NO_NODE, "", -1, refusal.code, refusal.message)


def _refused_one(message: FindCoordinatorRequest, request: Request, refusal: Refusal) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=refusal.code, error_message=refusal.message, node_id=NO_NODE, host="", port=-1
    )


def _on(name: str, until: int = NEWEST) -> Choice:
    group = Right(Operation.DESCRIBE, ResourceType.GROUP, name, until=until)
    transaction = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, until=until)
    kinds = {0: (group,), 1: (transaction,)}
    return Choice((group, transaction), lambda message, _, __: kinds.get(message.key_type, ()))


RIGHTS = Rights(
    whole=(_on("key", until=BATCHED_FROM - 1),),
    refused=_refused_one,
    each=(Each("coordinator_keys", "coordinators", _refused, _on(ITSELF), since=BATCHED_FROM),),
)


async def handle(
    message: FindCoordinatorRequest,
    request: Request,
    view: MetadataView,
    topics: TopicTable,
    reachability: Reachability,
    coordinators: Coordinators,
) -> FindCoordinatorResponse:
    finder = _Finder(request, view, coordinators, ToldLeaders(view, topics, reachability))
    if request.version >= BATCHED_FROM:
        found = [await finder.find(key, message.key_type) for key in dict.fromkeys(message.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    one = await finder.find(message.key, message.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


class _Finder:
    def __init__(self, request: Request, view: MetadataView, coordinators: Coordinators, leaders: ToldLeaders) -> None:
        self._request = request
        self._view = view
        self._coordinators = coordinators
        self._leaders = leaders

    async def find(self, key: str, kind: int) -> Coordinator:
        try:
            topic = TOPIC_OF_KIND.get(kind)
            if topic is None:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"there are coordinators of kind 0 and 1, none of {kind}")
            await self._coordinators.prepare(topic)
            node_id, address = self._coordinator(topic, key)
        except Refusal as refusal:
            return Coordinator(key, NO_NODE, "", -1, refusal.code, refusal.message)
        return Coordinator(key, node_id, address.host, address.port, ErrorCode.NONE, None)

    def _coordinator(self, topic: str, key: str) -> tuple[NodeId, Address]:
        """Whoever leads the partition that the key belongs to, and is there: who asks would try no other for long."""
        image = self._view.image
        found = image.topic_named(topic)
        node = None
        if found is not None:
            partition = found.partitions[partition_for_coordinated(key, found.partition_count)]
            leader = self._leaders.serving(found, partition)
            node = image.nodes.get(self._leaders.likely_successor(partition) if leader == NO_NODE else leader)
        address = None if node is None else address_of(self._request, self._view, node)
        if node is None or address is None:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads the part of {topic} that {key!r} belongs to"
            )
        return node.node_id, address
