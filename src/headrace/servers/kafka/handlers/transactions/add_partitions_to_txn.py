"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write to.

Up to version 3 producers send it; from version 4 on nodes do, for several transactions, also only to verify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.coordinators.transactions.answers import ADD_KNOWS_FENCED, known_error
from headrace.coordinators.transactions.coordinator import AddPartitions
from headrace.model.errors import ErrorCode
from headrace.model.names import ProducerId, TopicPartition
from headrace.servers.kafka.rights import Each, Right, Rights, on_cluster
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.errors import Refusal
    from headrace.servers.kafka.interfaces import Request

BATCHED_FROM = 4
BUMPING_FROM = 5
BUMPING_VERSION = 2  # of transactions: each has an epoch of its own (KIP-890)


def _refused(topic: AddPartitionsToTxnTopic, refusal: Refusal) -> AddPartitionsToTxnTopicResult:
    results = [AddPartitionsToTxnPartitionResult(index, refusal.code) for index in topic.partitions]
    return AddPartitionsToTxnTopicResult(topic.name, results)


def _refused_as_one(
    message: AddPartitionsToTxnRequest, request: Request, refusal: Refusal
) -> AddPartitionsToTxnResponse:
    if request.version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=refusal.code)
    topics = [_refused(topic, refusal) for topic in message.v3_and_below_topics]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


ALONE_UNTIL = BATCHED_FROM - 1
RIGHTS = Rights(
    whole=(
        Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "v3_and_below_transactional_id", until=ALONE_UNTIL),
        on_cluster(Operation.CLUSTER_ACTION, since=BATCHED_FROM),
    ),
    refused=_refused_as_one,
    each=(
        Each(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            _refused,
            Right(Operation.WRITE, ResourceType.TOPIC, "name"),
            is_all_or_nothing=True,
            until=ALONE_UNTIL,
        ),
    ),
)


async def handle(
    message: AddPartitionsToTxnRequest, request: Request, view: MetadataView, coordinators: Coordinators
) -> AddPartitionsToTxnResponse:
    if request.version >= BATCHED_FROM:
        results = [
            AddPartitionsToTxnResult(
                transaction.transactional_id, await _add(transaction, request.version, view, coordinators)
            )
            for transaction in message.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        verify_only=False,
        topics=message.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _add(only, request.version, view, coordinators)
    )


async def _add(
    transaction: AddPartitionsToTxnTransaction, version: int, view: MetadataView, coordinators: Coordinators
) -> list[AddPartitionsToTxnTopicResult]:
    wanted = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    codes = _unknown(wanted, view.image)
    if not codes:
        asked = AddPartitions(
            transaction.transactional_id,
            ProducerId(transaction.producer_id),
            transaction.producer_epoch,
            tuple(wanted),
            transaction_version=BUMPING_VERSION if version >= BUMPING_FROM else 0,
            verify_only=transaction.verify_only,
        )
        codes = await coordinators.add_here(asked)
    return [_result(topic, codes, version) for topic in transaction.topics]


def _unknown(wanted: list[TopicPartition], image: ClusterImage) -> dict[TopicPartition, ErrorCode]:
    """If one of them does not exist, none is added, and the others are told so: as Kafka does."""
    missing = set()
    for name in wanted:
        topic = image.topic_named(name.topic)
        if topic is None or not 0 <= name.partition < topic.partition_count:
            missing.add(name)
    if not missing:
        return {}
    return {
        name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
        for name in wanted
    }


def _result(
    topic: AddPartitionsToTxnTopic, codes: dict[TopicPartition, ErrorCode], version: int
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        topic.name,
        [
            AddPartitionsToTxnPartitionResult(
                index, known_error(codes[TopicPartition(topic.name, index)], version, ADD_KNOWS_FENCED)
            )
            for index in topic.partitions
        ],
    )
