"""ListConfigResources (key 74): what can be described with DescribeConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.configs.config_keys import ResourceKind
from headrace.metadata.image.effective_configs import list_config_resources
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.rights import Rights, error_of, on_cluster
from headrace.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request

KNOWN_TO_KAFKA = {2, 4, 8, 16, 32}  # topics, brokers, loggers of brokers, client telemetry, groups
KINDS_FROM = 1  # version 0 lists client telemetry alone, and there is none


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE_CONFIGS),), refused=error_of(ListConfigResourcesResponse))


def handle(message: ListConfigResourcesRequest, request: Request, view: MetadataView) -> ListConfigResourcesResponse:
    if request.version < KINDS_FROM:
        return ListConfigResourcesResponse()
    if not KNOWN_TO_KAFKA.issuperset(message.resource_types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    asked = set(message.resource_types) or set(ResourceKind)
    kinds = [kind for kind in ResourceKind if kind in asked]
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource.name, resource.kind) for resource in list_config_resources(view.image, kinds)
        ]
    )
