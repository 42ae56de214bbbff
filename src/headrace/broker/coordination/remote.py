"""What a transaction needs of other nodes: its coordinator's consent, and markers where they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.messages.live_transactions import (
    LiveTransactionsCoordinator,
    LiveTransactionsRequest,
    LiveTransactionsResponse,
)
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.broker.membership.peers import Peers
    from headrace.coordinators.transactions.coordinator import AddPartitions
    from headrace.coordinators.transactions.effects import MarkerOrder
    from headrace.model.names import Epoch, NodeId, ProducerId

CONSENT_LANE: Final = "transactions"
MARKER_LANE: Final = "markers"  # a marker waits for a commit; a consent must not wait for it


async def ask_to_add(peers: Peers, coordinator: NodeId, asked: AddPartitions) -> dict[TopicPartition, ErrorCode]:
    """The coordinator's outcome for each partition. One that cannot be reached is no consent."""
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                asked.transactional_id,
                asked.producer_id,
                asked.producer_epoch,
                asked.verify_only,
                [AddPartitionsToTxnTopic(name, indexes) for name, indexes in _by_topic(asked.partitions)],
            )
        ]
    )
    try:
        answer = await peers.ask(coordinator, request, AddPartitionsToTxnResponse, lane=CONSENT_LANE)
    except (ClientError, Refusal):
        return dict.fromkeys(asked.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    codes = {
        TopicPartition(topic.name, part.partition_index): ErrorCode(part.partition_error_code)
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for part in topic.results_by_partition
    }
    return {name: codes.get(name, ErrorCode.COORDINATOR_NOT_AVAILABLE) for name in asked.partitions}


async def ask_for_live(
    peers: Peers, coordinator: NodeId, producer_id: ProducerId, epochs: Mapping[int, Epoch]
) -> set[TopicPartition]:
    """Where a producer's transactions are open or ending, as another node's coordinators know. Raises Refusal if one of
    them does not say."""
    request = LiveTransactionsRequest(
        producer_id, [LiveTransactionsCoordinator(index, epoch) for index, epoch in epochs.items()]
    )
    try:
        answer = await peers.ask(coordinator, request, LiveTransactionsResponse, lane=CONSENT_LANE)
    except (ClientError, Refusal) as trouble:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(trouble)) from trouble
    if answer.error_code:
        raise Refusal(ErrorCode(answer.error_code), f"as node {coordinator} says")
    return {TopicPartition(topic.name, index) for topic in answer.topics for index in topic.partition_indexes}


async def write_markers(
    peers: Peers, leader: NodeId, names: Sequence[TopicPartition], order: MarkerOrder
) -> dict[TopicPartition, ErrorCode]:
    """Let another node end a transaction in partitions that it leads. An outcome for each."""
    request = WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                order.producer_id,
                order.producer_epoch,
                order.is_commit,
                [WritableTxnMarkerTopic(name, indexes) for name, indexes in _by_topic(names)],
                order.coordinator_epoch,
                order.transaction_version,
            )
        ]
    )
    try:
        answer = await peers.ask(leader, request, WriteTxnMarkersResponse, lane=MARKER_LANE)
    except (ClientError, Refusal):
        return dict.fromkeys(names, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    codes = {
        TopicPartition(topic.name, part.partition_index): ErrorCode(part.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for part in topic.partitions
    }
    return {name: codes.get(name, ErrorCode.NOT_LEADER_OR_FOLLOWER) for name in names}


def _by_topic(names: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in names:
        topics.setdefault(topic, []).append(index)
    return list(topics.items())
