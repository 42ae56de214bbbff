"""DescribeGroups (key 15): the members of classic groups, and what each was assigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request

MESSAGES_FROM = 6


async def handle(message: DescribeGroupsRequest, request: Request) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[await _describe(group_id, request) for group_id in message.groups])


async def _describe(group_id: str, request: Request) -> DescribedGroup:
    caller = caller_of(request)
    try:
        shard = request.node.coordination.groups_of(group_id)
        described: list[DescribedGroup] = await shard.look(lambda mind: mind.describe_groups([group_id], caller))
    except Refusal as refusal:
        text = refusal.message if request.version >= MESSAGES_FROM else None
        return DescribedGroup(error_code=refusal.code, error_message=text, group_id=group_id)
    return described[0]
