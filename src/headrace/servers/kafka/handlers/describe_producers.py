"""DescribeProducers (key 61): the producers that a partition remembers, and which of them have a transaction open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from headrace.replication.producers import Producer
    from headrace.servers.kafka.apis import Request


def handle(message: DescribeProducersRequest, request: Request) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [_answer(topic.name, index, request) for index in topic.partition_indexes])
            for topic in message.topics
        ]
    )


def _answer(topic: str, index: int, request: Request) -> PartitionResponse:
    try:
        partition = request.node.topics.partition(topic, index)
        partition.replica.check_read()
    except Refusal as refusal:
        return PartitionResponse(index, refusal.code, refusal.message)
    states = [_state(producer) for producer in partition.log.producers.entries()]
    return PartitionResponse(index, ErrorCode.NONE, None, states)


def _state(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.current_txn_first_offset,
    )
