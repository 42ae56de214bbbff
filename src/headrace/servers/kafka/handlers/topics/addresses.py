"""Where clients find the nodes of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.membership.local_node import CLIENTS
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import Node
    from headrace.servers.kafka.interfaces import Request


def address_of(request: Request, view: MetadataView, node: Node) -> Address | None:
    """Others say themselves where clients find them; None if one does not."""
    if node.node_id == view.node_id:
        return request.server.advertised_to(request.connection)
    endpoint = node.endpoint(CLIENTS)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)
