"""OffsetDelete (key 47): forget a group's offsets of some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


async def handle(message: OffsetDeleteRequest, request: Request, coordinators: Coordinators) -> OffsetDeleteResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.groups_of(message.group_id)
        response: OffsetDeleteResponse = await shard.ask(
            lambda mind, token, now: mind.delete_offsets(message, caller, token, now)
        )
    except Refusal as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    return response
