"""AlterReplicaLogDirs (key 34). A node has one directory: a replica is where it is to be, or the place is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.asking import distinct
from headrace.servers.kafka.rights import Rights, on_cluster
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


def _refused(message: AlterReplicaLogDirsRequest, request: Request, refusal: Refusal) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(results=list(_results(message, lambda _, __, ___: refusal.code)))


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=_refused)


def handle(
    message: AlterReplicaLogDirsRequest, request: Request, view: MetadataView, topics: TopicTable, world: World
) -> AlterReplicaLogDirsResponse:
    def standing(path: str, topic: str, index: int) -> ErrorCode:
        is_ours = path == world.disk.location
        return _standing(view, topics, topic, index) if is_ours else ErrorCode.LOG_DIR_NOT_FOUND

    return AlterReplicaLogDirsResponse(results=list(_results(message, standing)))


def _results(
    message: AlterReplicaLogDirsRequest, standing: Callable[[str, str, int], ErrorCode]
) -> Iterator[AlterReplicaLogDirTopicResult]:
    for directory in {item.path: item for item in message.dirs}.values():
        for topic, indexes in distinct((item.name, item.partitions) for item in directory.topics).items():
            yield AlterReplicaLogDirTopicResult(
                topic,
                [AlterReplicaLogDirPartitionResult(index, standing(directory.path, topic, index)) for index in indexes],
            )


def _standing(view: MetadataView, topics: TopicTable, topic: str, index: int) -> ErrorCode:
    if topics.find(topic, index) is not None:
        return ErrorCode.NONE
    known = view.image.topic_named(topic)
    is_elsewhere = known is not None and index in known.partitions
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
