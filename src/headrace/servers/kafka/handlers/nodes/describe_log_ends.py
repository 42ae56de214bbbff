"""DescribeLogEnds (key 20023, ours, between nodes): where this node's logs end, before somebody is elected by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.replicas.log_ends import LOGS_MAX, log_ends
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_EPOCH, NO_OFFSET, LogId
from headrace.wire.messages.describe_log_ends import (
    DescribedLog,
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.elections.log_end_comparison import LogEnd
    from headrace.servers.kafka.interfaces import Request


def handle(message: DescribeLogEndsRequest, request: Request, topics: TopicTable) -> DescribeLogEndsResponse:
    if len(message.logs) > LOGS_MAX:
        return DescribeLogEndsResponse(
            ErrorCode.INVALID_REQUEST, f"{len(message.logs)} logs at once; ask for {LOGS_MAX} at most"
        )
    ends = log_ends(topics, [LogId(log.topic_id, log.partition_index) for log in message.logs])
    return DescribeLogEndsResponse(logs=[_described(log_id, end) for log_id, end in ends.items()])


def _described(log_id: LogId, end: LogEnd | None) -> DescribedLog:
    if end is None:
        return DescribedLog(log_id.topic_id, log_id.partition, False, NO_EPOCH, NO_OFFSET)
    return DescribedLog(log_id.topic_id, log_id.partition, True, *end)
