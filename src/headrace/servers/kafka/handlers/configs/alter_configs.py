"""AlterConfigs (key 33): the old way, which replaces all settings of a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.config_commands import ResourceConfigs, alter_configs
from headrace.servers.kafka.handlers.configs.incremental_alter_configs import alter
from headrace.servers.kafka.rights import Each, Rights, right_on_configs
from headrace.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.configs.config_keys import ConfigResource
    from headrace.model.errors import Refusal
    from headrace.servers.kafka.interfaces import Request


def _refused(resource: AlterConfigsResource, refusal: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(refusal.code, refusal.message, resource.resource_type, resource.resource_name)


RIGHTS = Rights(each=(Each("resources", "responses", _refused, right_on_configs(Operation.ALTER_CONFIGS)),))


async def handle(
    message: AlterConfigsRequest, request: Request, view: MetadataView, commands: Commands
) -> AlterConfigsResponse:
    def wanted(item: AlterConfigsResource, resource: ConfigResource) -> ResourceConfigs:
        return ResourceConfigs(resource, tuple((config.name, config.value) for config in item.configs))

    answers = await alter(message.resources, view, commands, wanted, alter_configs, message.validate_only)
    return AlterConfigsResponse(responses=[AlterConfigsResourceResponse(*answer) for answer in answers])
