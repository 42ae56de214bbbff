"""DescribeLogDirs (key 35): how large each partition is, and how much room is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from headrace.broker.topics import ServedTopic
    from headrace.servers.kafka.apis import Request


async def handle(message: DescribeLogDirsRequest, request: Request) -> DescribeLogDirsResponse:
    disk = request.node.world.disk
    total_bytes, free_bytes = await request.node.world.threads.run(lambda: (disk.total_bytes(), disk.free_bytes()))
    return DescribeLogDirsResponse(
        error_code=ErrorCode.NONE,
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=disk.location,
                topics=_topics(message.topics, request),
                total_bytes=total_bytes,
                usable_bytes=free_bytes,
            )
        ],
    )


def _topics(wanted: list[DescribableLogDirTopic] | None, request: Request) -> list[DescribeLogDirsTopic]:
    table = request.node.topics
    if wanted is None:
        return [_topic(topic, range(len(topic.partitions))) for topic in table]
    named = ((table.named(item.topic), item.partitions) for item in wanted)
    return [_topic(topic, indexes) for topic, indexes in named if topic is not None]


def _topic(topic: ServedTopic, indexes: list[int] | range) -> DescribeLogDirsTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
        if partition is not None:
            partitions.append(DescribeLogDirsPartition(index, partition.log.size_bytes, 0))
    return DescribeLogDirsTopic(topic.name, partitions)
