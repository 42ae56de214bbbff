"""DescribeLogDirs (key 35): how large each partition is, and how much room is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.asking import distinct
from headrace.servers.kafka.rights import Rights, error_of, on_cluster
from headrace.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
    from headrace.broker.replicas.cleaner import LogCleaner
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=error_of(DescribeLogDirsResponse))


async def handle(
    message: DescribeLogDirsRequest, request: Request, topics: TopicTable, cleaner: LogCleaner, world: World
) -> DescribeLogDirsResponse:
    disk = world.disk
    total_bytes, free_bytes = await world.threads.run(lambda: (disk.total_bytes(), disk.free_bytes()))
    return DescribeLogDirsResponse(
        error_code=ErrorCode.NONE,
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=disk.location,
                topics=_topics(message.topics, topics, cleaner),
                total_bytes=total_bytes,
                usable_bytes=free_bytes,
            )
        ],
    )


def _topics(
    wanted: list[DescribableLogDirTopic] | None, table: TopicTable, cleaner: LogCleaner
) -> list[DescribeLogDirsTopic]:
    if wanted is None:
        return [_topic(topic, range(len(topic.partitions)), cleaner) for topic in table]
    asked = distinct((item.topic, item.partitions) for item in wanted)
    named = ((table.named(topic), indexes) for topic, indexes in asked.items())
    return [_topic(topic, indexes, cleaner) for topic, indexes in named if topic is not None]


def _topic(topic: ServedTopic, indexes: Iterable[int], cleaner: LogCleaner) -> DescribeLogDirsTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
        if partition is not None:
            described = DescribeLogDirsPartition(index, partition.log.size_bytes, 0)
            cleaning = cleaner.states.get(partition.log_id)
            if cleaning is not None:
                described.dirty_bytes = cleaning.dirty_bytes
                described.saved_bytes = cleaning.saved_bytes
                described.compacted_ms = cleaning.last_pass_ms
                described.compaction_error = cleaning.error
            partitions.append(described)
    return DescribeLogDirsTopic(topic.name, partitions)
