"""DeleteRecords (key 21): move a log's start; -1 means up to the high watermark.

Before it is answered, it is durable on every replica that may lead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.access.operations import Operation, ResourceType
from headrace.broker.partitions import deletion
from headrace.metadata.configs.internal_topics import is_internal
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.servers.kafka.rights import Each, Right, Rights
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request
    from headrace.storage.store.log_store import LogStore


EVERYTHING = -1  # that is committed
SETTLE_S_MAX = 2.0  # for a sync of the disk, and followers that keep up


def _refused(topic: DeleteRecordsTopic, refusal: Refusal) -> DeleteRecordsTopicResult:
    results = [DeleteRecordsPartitionResult(part.partition_index, -1, refusal.code) for part in topic.partitions]
    return DeleteRecordsTopicResult(topic.name, results)


RIGHTS = Rights(
    each=(Each("topics", "topics", _refused, Right(Operation.DELETE, ResourceType.TOPIC, "name")),),
)


async def handle(
    message: DeleteRecordsRequest, request: Request, topics: TopicTable, store: LogStore, world: World
) -> DeleteRecordsResponse:
    await _settle(message, topics)
    answers = []
    moved: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    for topic in message.topics:
        results = []
        for wanted in topic.partitions:
            try:
                partition = topics.partition(topic.name, wanted.partition_index)
                _check_may_go(topic.name)
                start = deletion.delete_records(partition, Offset(wanted.offset))
                results.append(DeleteRecordsPartitionResult(wanted.partition_index, start, ErrorCode.NONE))
                moved.append((partition, results[-1]))
            except Refusal as refusal:
                results.append(DeleteRecordsPartitionResult(wanted.partition_index, -1, refusal.code))
        answers.append(DeleteRecordsTopicResult(topic.name, results))
    try:
        await store.checkpoints.write_start_offsets()
    except Refusal as refusal:
        for result in (result for topic in answers for result in topic.partitions):
            result.error_code = result.error_code or refusal.code
    deadline_s = world.clock.monotonic_s() + message.timeout_ms / 1000
    for partition, result in moved:
        try:
            await deletion.deleted_everywhere(partition, Offset(result.low_watermark), world.clock, deadline_s)
        except Refusal as refusal:
            result.error_code = result.error_code or refusal.code
    return DeleteRecordsResponse(topics=answers)


async def _settle(message: DeleteRecordsRequest, topics: TopicTable) -> None:
    """What was acknowledged with acks=1 a moment ago may be deleted, too: hasten its commit, and wait for that."""
    within_s = min(message.timeout_ms / 1000, SETTLE_S_MAX)
    waiting: dict[Partition, None] = {}
    for topic in message.topics:
        for wanted in topic.partitions:
            try:
                partition = topics.partition(topic.name, wanted.partition_index)
                partition.replica.check_read()
            except Refusal:
                continue  # it is refused when its turn comes
            if wanted.offset == EVERYTHING or partition.high_watermark < wanted.offset <= partition.log.next_offset:
                waiting[partition] = None
    await asyncio.gather(*(partition.settled_end(within_s, is_committed_only=False) for partition in waiting))


def _check_may_go(topic: str) -> None:
    if is_internal(topic):
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"what coordinators keep in {topic} is theirs to delete")
