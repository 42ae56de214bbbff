"""Transactions as ListTransactions and DescribeTransactions show them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.coordinators.transactions.listing import TransactionFilter
from headrace.coordinators.transactions.state import Transaction, by_topic
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.describe_transactions import TopicData
from headrace.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from headrace.wire.messages.list_transactions import ListTransactionsResponse
from headrace.wire.messages.list_transactions import TransactionState as ListedTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.model.names import Millis
    from headrace.wire.messages.list_transactions import ListTransactionsRequest


def listed_transactions(
    request: ListTransactionsRequest, transactions: Mapping[str, Transaction], now_ms: Millis
) -> ListTransactionsResponse:
    try:
        wanted = TransactionFilter(request)
        found = [
            ListedTransaction(transactional_id, transaction.producer_id, transaction.status.text)
            for transactional_id, transaction in transactions.items()
            if wanted.admits(transactional_id, transaction, now_ms)
        ]
    except Refusal as refusal:
        return ListTransactionsResponse(error_code=refusal.code)
    found.sort(key=attrgetter("transactional_id"))
    return ListTransactionsResponse(unknown_state_filters=wanted.unknown_states, transaction_states=found)


def described_transaction(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    if transaction is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(code, transactional_id)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.status.text,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic.topic, topic.partition_ids) for topic in by_topic(transaction.partitions)],
    )
