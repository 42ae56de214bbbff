"""AlterReplicaLogDirs (key 34). A node has one directory: a replica is where it is to be, or the place is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.asking import distinct
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


def handle(
    message: AlterReplicaLogDirsRequest, request: Request, view: MetadataView, topics: TopicTable, world: World
) -> AlterReplicaLogDirsResponse:
    results = _results(message, world.disk.location, lambda topic, index: _standing(view, topics, topic, index))
    return AlterReplicaLogDirsResponse(results=list(results))


def _results(
    message: AlterReplicaLogDirsRequest, location: str, standing: Callable[[str, int], ErrorCode]
) -> Iterator[AlterReplicaLogDirTopicResult]:
    for directory in {item.path: item for item in message.dirs}.values():
        is_ours = directory.path == location
        for topic, indexes in distinct((item.name, item.partitions) for item in directory.topics).items():
            yield AlterReplicaLogDirTopicResult(
                topic,
                [
                    AlterReplicaLogDirPartitionResult(
                        index, standing(topic, index) if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
                    )
                    for index in indexes
                ],
            )


def _standing(view: MetadataView, topics: TopicTable, topic: str, index: int) -> ErrorCode:
    if topics.find(topic, index) is not None:
        return ErrorCode.NONE
    known = view.image.topic_named(topic)
    is_elsewhere = known is not None and index in known.partitions
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
