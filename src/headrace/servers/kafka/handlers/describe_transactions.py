"""DescribeTransactions (key 65): state, partitions and age of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from headrace.servers.kafka.apis import Request


async def handle(message: DescribeTransactionsRequest, request: Request) -> DescribeTransactionsResponse:
    states = [await _describe(transactional_id, request) for transactional_id in message.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(transactional_id: str, request: Request) -> TransactionState:
    try:
        shard = request.node.coordination.transactions_of(transactional_id)
        found: list[TransactionState] = await shard.look(lambda mind: mind.describe([transactional_id]))
    except Refusal as refusal:
        return TransactionState(error_code=refusal.code, transactional_id=transactional_id)
    return found[0]
