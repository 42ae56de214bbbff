"""EndTxn (key 26): commit or abort. Answered once the decision is safe; the markers follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.asking import caller_of
from headrace.servers.kafka.rights import Right, Rights, error_of
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.coordination.producer_ids import ProducerIds
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(
    whole=(Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),), refused=error_of(EndTxnResponse)
)


async def handle(
    message: EndTxnRequest, request: Request, coordinators: Coordinators, producer_ids: ProducerIds
) -> EndTxnResponse:
    caller = caller_of(request)
    try:
        shard = coordinators.transactions_of(message.transactional_id)
        fresh = await producer_ids.take()  # for the rare producer that has used up its epochs
        response: EndTxnResponse = await shard.ask(
            lambda mind, token, now: mind.end(message, caller, token, now, fresh)
        )
    except Refusal as refusal:
        return EndTxnResponse(error_code=refusal.code)
    return response
