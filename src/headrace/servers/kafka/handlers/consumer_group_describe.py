"""ConsumerGroupDescribe (key 69): the members of groups of the newer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request


async def handle(message: ConsumerGroupDescribeRequest, request: Request) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[await _describe(group_id, request) for group_id in message.group_ids])


async def _describe(group_id: str, request: Request) -> DescribedGroup:
    try:
        shard = request.node.coordination.groups_of(group_id)
        described: list[DescribedGroup] = await shard.look(lambda mind: mind.describe_consumer_groups([group_id]))
    except Refusal as refusal:
        return DescribedGroup(error_code=refusal.code, error_message=refusal.message, group_id=group_id)
    return described[0]
