"""ListConfigResources (key 74): what can be described with DescribeConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.configs import ResourceKind
from headrace.metadata.effective_configs import list_config_resources
from headrace.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request

KINDS_FROM = 1  # version 0 lists client telemetry alone, and there is none


def handle(message: ListConfigResourcesRequest, request: Request) -> ListConfigResourcesResponse:
    if request.version < KINDS_FROM:
        return ListConfigResourcesResponse()
    asked = set(message.resource_types) or set(ResourceKind)
    kinds = [kind for kind in ResourceKind if kind in asked]
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource.name, resource.kind)
            for resource in list_config_resources(request.node.image, kinds)
        ]
    )
