"""FindCoordinator (key 10): with one node, the answer is this node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request

BATCHED_FROM = 4


def handle(message: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
    address = request.server.advertised_to(request.connection)
    node_id = request.node.node_id
    if request.version < BATCHED_FROM:
        return FindCoordinatorResponse(node_id=node_id, host=address.host, port=address.port)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node_id, host=address.host, port=address.port)
            for key in message.coordinator_keys
        ]
    )
