"""DescribeProducers (key 61): the producers that a partition remembers, and which of them have a transaction open.

A follower answers as well, from its own copy: whoever looks for hanging transactions asks one node about all it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import Breather
from headrace.servers.kafka.asking import distinct
from headrace.servers.kafka.limits.answer_budget import AnswerBudget
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.replication.producers import Producer
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

STATE_BYTES: Final = 40  # of a producer in an answer


def _refused(topic: TopicRequest, refusal: Refusal) -> TopicResponse:
    answers = [PartitionResponse(index, refusal.code, refusal.message) for index in topic.partition_indexes]
    return TopicResponse(topic.name, answers)


RIGHTS = Rights(each=(Each("topics", "topics", _refused, Right(Operation.READ, ResourceType.TOPIC, "name")),))


async def handle(
    message: DescribeProducersRequest, request: Request, topics: TopicTable, world: World
) -> DescribeProducersResponse:
    breather, budget = Breather(world.clock), AnswerBudget()
    described = []
    for name, indexes in distinct((topic.name, topic.partition_indexes) for topic in message.topics).items():
        answers = []
        for index in indexes:
            await breather.breathe()  # a partition may remember very many
            answers.append(_answer(name, index, topics, budget))
        described.append(TopicResponse(name, answers))
    return DescribeProducersResponse(topics=described)


def _answer(topic: str, index: int, topics: TopicTable, budget: AnswerBudget) -> PartitionResponse:
    try:
        budget.check()
        partition = topics.partition(topic, index)
        states = [_state(producer) for producer in partition.log.producers.entries()]
        budget.take(STATE_BYTES * len(states))
    except Refusal as refusal:
        return PartitionResponse(index, refusal.code, refusal.message)
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
