"""InitProducerId (key 22): a number for an idempotent producer. Not yet: transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request


async def handle(message: InitProducerIdRequest, request: Request) -> InitProducerIdResponse:
    """A producer that asks again, whatever it was called before, is a new one: nothing ties it to its past."""
    if message.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        return InitProducerIdResponse(producer_id=await request.node.new_producer_id(), producer_epoch=0)
    except Refusal as refusal:
        return InitProducerIdResponse(error_code=refusal.code)
