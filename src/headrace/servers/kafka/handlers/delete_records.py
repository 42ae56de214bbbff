"""DeleteRecords (key 21): move a log's start; -1 means up to the high watermark.

Before it is answered, it is durable on every replica that may lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.servers.kafka.apis import Request


async def handle(message: DeleteRecordsRequest, request: Request) -> DeleteRecordsResponse:
    node = request.node
    topics = []
    moved: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    for topic in message.topics:
        results = []
        for wanted in topic.partitions:
            try:
                partition = node.topics.partition(topic.name, wanted.partition_index)
                start = partition.delete_records(Offset(wanted.offset))
                results.append(DeleteRecordsPartitionResult(wanted.partition_index, start, ErrorCode.NONE))
                moved.append((partition, results[-1]))
            except Refusal as refusal:
                results.append(DeleteRecordsPartitionResult(wanted.partition_index, -1, refusal.code))
        topics.append(DeleteRecordsTopicResult(topic.name, results))
    try:
        await node.store.write_start_offsets()
    except Refusal as refusal:
        for result in (result for topic in topics for result in topic.partitions):
            result.error_code = result.error_code or refusal.code
    deadline_s = node.world.clock.monotonic_s() + message.timeout_ms / 1000
    for partition, result in moved:
        left_s = deadline_s - node.world.clock.monotonic_s()
        try:
            await partition.deleted_everywhere(Offset(result.low_watermark), left_s)
        except Refusal as refusal:
            result.error_code = result.error_code or refusal.code
    return DeleteRecordsResponse(topics=topics)
