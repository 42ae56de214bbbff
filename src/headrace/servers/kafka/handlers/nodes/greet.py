"""Greet (key 20010, ours): a node that is told to found a cluster asks whether there is one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.wire.messages.greet import GreetRequest, GreetResponse

if TYPE_CHECKING:
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.metadata.quorum import Quorum
    from headrace.servers.kafka.interfaces import Request


def handle(_message: GreetRequest, request: Request, local: LocalNode, quorum: Quorum) -> GreetResponse:
    return GreetResponse(local.node_id, quorum.image.cluster_id or "", quorum.has_log, list(local.founders))
