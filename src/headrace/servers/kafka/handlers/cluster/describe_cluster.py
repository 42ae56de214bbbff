"""DescribeCluster (key 60). Nodes that are not there now are told of where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.authorized_operations import ON_CLUSTER, operations
from headrace.servers.kafka.handlers.topics.addresses import address_of
from headrace.servers.kafka.rights import Rights, Told
from headrace.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request

BROKERS = 1


RIGHTS = Rights(told=(Told((), "cluster_authorized_operations"),))


def handle(message: DescribeClusterRequest, request: Request, view: MetadataView) -> DescribeClusterResponse:
    cluster_id = view.image.cluster_id or ""
    if message.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this address serves clients; ask it for brokers",
            endpoint_type=message.endpoint_type,
            cluster_id=cluster_id,
        )
    return DescribeClusterResponse(
        endpoint_type=message.endpoint_type,
        cluster_id=cluster_id,
        controller_id=view.node_id,
        brokers=list(_brokers(request, view, with_fenced=message.include_fenced_brokers)),
        cluster_authorized_operations=operations(ON_CLUSTER, asked_for=message.include_cluster_authorized_operations),
    )


def _brokers(request: Request, view: MetadataView, *, with_fenced: bool) -> Iterator[DescribeClusterBroker]:
    for _, node in sorted(view.image.nodes.items()):
        address = address_of(request, view, node)
        if address is None or (node.is_fenced and not with_fenced):
            continue
        yield DescribeClusterBroker(
            node.node_id, address.host, address.port, node.rack, node.is_fenced, node.is_draining
        )
