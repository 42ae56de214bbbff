"""DescribeClientQuotas (key 48): the quotas that a filter lets through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.access.quotas.filters import FilterPart, MatchType
from headrace.metadata.commands.quota_commands import describe_quotas
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Rights, on_cluster
from headrace.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request


def _refused(_: DescribeClientQuotasRequest, __: Request, refusal: Refusal) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE_CONFIGS),), refused=_refused)


def handle(
    message: DescribeClientQuotasRequest,
    request: Request,
    view: MetadataView,
) -> DescribeClientQuotasResponse:
    try:
        parts = [_part(component) for component in message.components]
        found = describe_quotas(view.image, parts, is_strict=message.strict)
    except Refusal as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
    entries = [
        EntryData(
            [EntityData(part.kind, part.name) for part in quotas.entity],
            [ValueData(key, value) for key, value in quotas.values],
        )
        for quotas in found
    ]
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=None, entries=entries)


def _part(component: ComponentData) -> FilterPart:
    if component.match_type not in set(MatchType):
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"there is no match type {component.match_type}; 0 to 2 are exact, default and any",
        )
    return FilterPart(component.entity_type, MatchType(component.match_type), component.match)
