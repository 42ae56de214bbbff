"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from headrace.access.operations import Operation
from headrace.metadata.commands.config_commands import (
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
    incremental_alter_configs,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.configs.describe_configs import config_resource
from headrace.servers.kafka.rights import Each, Rights, right_on_configs
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.membership.commands import Commands
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.configs.config_keys import ConfigResource
    from headrace.metadata.decisions.decision import Decision, Outcome
    from headrace.servers.kafka.interfaces import Request


def _refused(resource: AlterConfigsResource, refusal: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(refusal.code, refusal.message, resource.resource_type, resource.resource_name)


RIGHTS = Rights(each=(Each("resources", "responses", _refused, right_on_configs(Operation.ALTER_CONFIGS)),))


async def handle(
    message: IncrementalAlterConfigsRequest, request: Request, view: MetadataView, commands: Commands
) -> IncrementalAlterConfigsResponse:
    def wanted(item: AlterConfigsResource, resource: ConfigResource) -> ResourceEdits:
        return ResourceEdits(resource, tuple(_edit(config) for config in item.configs))

    answers = await alter(message.resources, view, commands, wanted, incremental_alter_configs, message.validate_only)
    return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(*answer) for answer in answers])


def _edit(config: AlterableConfig) -> ConfigEdit:
    if config.config_operation not in set(ConfigOperation):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"there is no operation {config.config_operation}; 0 to 3 are set to subtract"
        )
    return ConfigEdit(config.name, ConfigOperation(config.config_operation), config.value)


class Altered(Protocol):
    """A resource in a request, of either of the two APIs."""

    resource_type: int
    resource_name: str


class Answer(NamedTuple):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


ItemT = TypeVar("ItemT", bound=Altered)
ChangeT = TypeVar("ChangeT")


async def alter(
    items: Sequence[ItemT],
    view: MetadataView,
    commands: Commands,
    wanted: Callable[[ItemT, ConfigResource], ChangeT],
    decide: Callable[[Any, Sequence[ChangeT], Any, bool], Decision[list[Outcome[ConfigResource]]]],
    validate_only: bool,
) -> list[Answer]:
    """What both ways of altering have in common. Answers stand in the order of the items."""
    answers: list[Answer | None] = []
    changes: list[ChangeT] = []
    for item in items:
        try:
            changes.append(wanted(item, config_resource(item.resource_type, item.resource_name)))
            answers.append(None)
        except Refusal as refusal:
            answers.append(Answer(refusal.code, refusal.message, item.resource_type, item.resource_name))
    names = [item.resource_name for item, answer in zip(items, answers, strict=True) if answer is None]
    outcomes = await commands.submit_each(names, lambda image: decide(image, changes, view.configs, validate_only))
    in_order = iter(outcomes)
    return [
        answer if answer is not None else _answer(item, next(in_order))
        for item, answer in zip(items, answers, strict=True)
    ]


def _answer(item: Altered, outcome: Outcome[ConfigResource]) -> Answer:
    if isinstance(outcome.result, Refusal):
        return Answer(outcome.result.code, outcome.result.message, item.resource_type, item.resource_name)
    return Answer(ErrorCode.NONE, None, item.resource_type, item.resource_name)
