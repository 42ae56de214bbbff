"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a consumer notices when its log was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.servers.kafka.interfaces import Request


def _refused(topic: OffsetForLeaderTopic, refusal: Refusal) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic.topic, [EpochEndOffset(refusal.code, wanted.partition) for wanted in topic.partitions]
    )


RIGHTS = Rights(
    each=(Each("topics", "topics", _refused, Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic")),),
)


def handle(message: OffsetForLeaderEpochRequest, request: Request, topics: TopicTable) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_answer(topics, topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _answer(topics: TopicTable, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = topics.partition(topic, wanted.partition)
        partition.replica.check_read()
        partition.replica.check_epoch(Epoch(wanted.current_leader_epoch))
        epoch, end_offset = partition.epoch_end(Epoch(wanted.leader_epoch))
    except Refusal as refusal:
        return EpochEndOffset(refusal.code, wanted.partition)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end_offset)
