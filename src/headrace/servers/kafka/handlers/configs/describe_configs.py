"""DescribeConfigs (key 32): every setting with its value and where that comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.image.effective_configs import ConfigEntry, describe_configs
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import Breather
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Each, Rights, right_on_configs
from headrace.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.broker.metadata.view import MetadataView
    from headrace.runtime.clock import Clock
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


AT_ONCE_MAX = 20  # resources that are described without giving way to others; each takes some 200 µs


def _refused(resource: DescribeConfigsResource, refusal: Refusal) -> DescribeConfigsResult:
    return DescribeConfigsResult(refusal.code, refusal.message, resource.resource_type, resource.resource_name)


RIGHTS = Rights(each=(Each("resources", "results", _refused, right_on_configs(Operation.DESCRIBE_CONFIGS)),))


def handle(
    message: DescribeConfigsRequest, request: Request, view: MetadataView, world: World
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    # Each once: the answer is many times larger than the question.
    wanted = list({(item.resource_type, item.resource_name): item for item in message.resources}.values())
    if len(wanted) > AT_ONCE_MAX:
        return _describe_many(message, wanted, view, world.clock)
    budget = AnswerBudget()
    return DescribeConfigsResponse(results=[_result(message, resource, view, budget) for resource in wanted])


async def _describe_many(
    message: DescribeConfigsRequest, wanted: list[DescribeConfigsResource], view: MetadataView, clock: Clock
) -> DescribeConfigsResponse:
    breather = Breather(clock)
    budget = AnswerBudget()
    response = DescribeConfigsResponse()
    for resource in wanted:
        await breather.breathe()
        response.results.append(_result(message, resource, view, budget))
    return response


def _result(
    message: DescribeConfigsRequest, wanted: DescribeConfigsResource, view: MetadataView, budget: AnswerBudget
) -> DescribeConfigsResult:
    try:
        budget.check()
        entries = describe_configs(
            view.image,
            config_resource(wanted.resource_type, wanted.resource_name),
            wanted.configuration_keys,
            view.configs,
        )
        configs = [_config(message, entry) for entry in entries]
        budget.take(sum(map(_size, configs)))
    except Refusal as refusal:
        return DescribeConfigsResult(refusal.code, refusal.message, wanted.resource_type, wanted.resource_name)
    return DescribeConfigsResult(ErrorCode.NONE, None, wanted.resource_type, wanted.resource_name, configs)


def _size(config: DescribeConfigsResourceResult) -> int:
    synonyms = sum(len(synonym.name) + len(synonym.value or "") for synonym in config.synonyms)
    return len(config.name) + len(config.value or "") + len(config.documentation or "") + synonyms


def _config(message: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if message.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if message.include_documentation else None,
    )


def config_resource(kind: int, name: str) -> ConfigResource:
    """Raises Refusal for the kinds of resource that have no settings here."""
    if kind not in set(ResourceKind):
        known = ", ".join(f"{kind.value} ({kind.name.lower()})" for kind in ResourceKind)
        raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here; known are {known}")
    return ConfigResource(ResourceKind(kind), name)
