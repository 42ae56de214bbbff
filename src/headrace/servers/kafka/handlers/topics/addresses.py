"""Where clients find the nodes of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.runtime.network import Address

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import Node
    from headrace.servers.kafka.interfaces import Request


def address_of(request: Request, view: MetadataView, node: Node) -> Address | None:
    """By the listener that this client asks on: who speaks to one kind of it goes on so. Others say themselves where
    clients find them; None if one has no such listener."""
    if node.node_id == view.node_id:
        return request.server.advertised_to(request.connection)
    endpoint = node.endpoint(request.server.security.name)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)
