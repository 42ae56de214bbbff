"""DescribeTransactions (key 65): state, partitions and age of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Each, Listed, Right, Rights
from headrace.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.servers.kafka.interfaces import Request


def _refused(transactional_id: str, refusal: Refusal) -> TransactionState:
    return TransactionState(error_code=refusal.code, transactional_id=transactional_id)


RIGHTS = Rights(
    each=(
        Each(
            "transactional_ids",
            "transaction_states",
            _refused,
            Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        ),
    ),
    listed=(Listed(("transaction_states", "topics"), Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic")),),
)


async def handle(
    message: DescribeTransactionsRequest, request: Request, coordinators: Coordinators
) -> DescribeTransactionsResponse:
    # Each once: one that is named a thousand times would make an answer that no memory holds.
    wanted = dict.fromkeys(message.transactional_ids)
    budget = AnswerBudget()
    states = [await _describe(transactional_id, coordinators, budget) for transactional_id in wanted]
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(transactional_id: str, coordinators: Coordinators, budget: AnswerBudget) -> TransactionState:
    try:
        budget.check()
        shard = coordinators.transactions_of(transactional_id)
        found: list[TransactionState] = await shard.look(lambda mind: mind.describe([transactional_id]))
        budget.take(sum(len(topic.topic) + 4 * len(topic.partitions) for topic in found[0].topics))
    except Refusal as refusal:
        return TransactionState(error_code=refusal.code, transactional_id=transactional_id)
    return found[0]
