"""ListTransactions (key 66): the transactional ids that this node coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.rights import Listed, Right, Rights
from headrace.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


SEE: Final = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
RIGHTS = Rights(listed=(Listed(("transaction_states",), SEE),))


async def handle(
    message: ListTransactionsRequest, request: Request, coordinators: Coordinators, world: World
) -> ListTransactionsResponse:
    now_ms = world.clock.wall_ms()
    answer = ListTransactionsResponse()
    for shard in coordinators.transaction_shards():
        try:
            found: ListTransactionsResponse = await shard.look(lambda mind: mind.list(message, now_ms))
        except Refusal as refusal:
            if shard.is_closed:
                continue  # it has moved since: another node lists what it has
            return ListTransactionsResponse(error_code=refusal.code)
        if found.error_code:
            return found
        answer.unknown_state_filters = found.unknown_state_filters
        answer.transaction_states += found.transaction_states
    return answer
