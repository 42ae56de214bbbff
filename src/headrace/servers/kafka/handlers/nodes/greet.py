"""Greet (key 20010, ours): a node that is told to found a cluster asks whether there is one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.messages.greet import GreetRequest, GreetResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request


def handle(_message: GreetRequest, request: Request) -> GreetResponse:
    node = request.node
    return GreetResponse(node.node_id, node.image.cluster_id or "", node.quorum.has_log, list(node.local.founders))
