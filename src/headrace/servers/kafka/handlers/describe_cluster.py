"""DescribeCluster (key 60)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.handlers.metadata import brokers
from headrace.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request

BROKERS = 1


def handle(message: DescribeClusterRequest, request: Request) -> DescribeClusterResponse:
    cluster_id = request.node.image.cluster_id or ""
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
        controller_id=request.node.node_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=address.host, port=address.port, rack=rack)
            for node_id, address, rack in brokers(request)
        ],
    )
