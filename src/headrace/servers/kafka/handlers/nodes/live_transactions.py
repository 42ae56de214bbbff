"""LiveTransactions (key 20022, ours, between nodes): where a producer's transactions are open or ending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, ProducerId
from headrace.wire.messages.live_transactions import (
    LiveTransactionsRequest,
    LiveTransactionsResponse,
    LiveTransactionsTopic,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


async def handle(
    message: LiveTransactionsRequest, request: Request, coordinators: Coordinators
) -> LiveTransactionsResponse:
    wanted = {asked.partition_index: Epoch(asked.leader_epoch) for asked in message.coordinators}
    try:
        found = await coordinators.live_here(ProducerId(message.producer_id), wanted)
    except Refusal as refusal:
        return LiveTransactionsResponse(refusal.code)
    return LiveTransactionsResponse(
        ErrorCode.NONE, [LiveTransactionsTopic(name.topic, [name.partition]) for name in sorted(found)]
    )
