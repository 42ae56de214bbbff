"""WriteTxnMarkers (key 27): end transactions in partitions, as their coordinator or an operator orders.

Coordinators are nodes, and ask where nodes listen. Whoever asks where clients do is an operator's tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.coordinators.transactions.effects import MarkerOrder
from headrace.model.names import ProducerId, TopicPartition
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from headrace.broker.coordination.coordinators import Coordinators
    from headrace.broker.coordination.hanging import HangingTransactions
    from headrace.model.errors import ErrorCode, Refusal
    from headrace.servers.kafka.interfaces import Request


def _refused(marker: WritableTxnMarker, refusal: Refusal) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            topic.name, [WritableTxnMarkerPartitionResult(index, refusal.code) for index in topic.partition_indexes]
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(marker.producer_id, topics)


RIGHTS = Rights(
    whole=(Right(Operation.ALTER, or_on_cluster=Operation.CLUSTER_ACTION),),
    each=(Each("markers", "markers", _refused),),
)


async def handle(
    message: WriteTxnMarkersRequest, request: Request, coordinators: Coordinators, hanging: HangingTransactions
) -> WriteTxnMarkersResponse:
    end = coordinators.markers.write_here if request.server.is_for_nodes else hanging.abort
    return WriteTxnMarkersResponse(markers=[await _write(marker, end) for marker in message.markers])


async def _write(
    marker: WritableTxnMarker, end: Callable[[MarkerOrder], Awaitable[Mapping[TopicPartition, ErrorCode]]]
) -> WritableTxnMarkerResult:
    names = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    order = MarkerOrder(
        transactional_id="",
        producer_id=ProducerId(marker.producer_id),
        producer_epoch=marker.producer_epoch,
        is_commit=marker.transaction_result,
        partitions=tuple(names),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    codes = await end(order)
    topics = [
        WritableTxnMarkerTopicResult(
            topic.name,
            [
                WritableTxnMarkerPartitionResult(index, codes[TopicPartition(topic.name, index)])
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(marker.producer_id, topics)
