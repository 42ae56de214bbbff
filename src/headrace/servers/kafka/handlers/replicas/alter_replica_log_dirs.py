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
    from collections.abc import Iterator

    from headrace.broker.node import Node
    from headrace.servers.kafka.interfaces import Request


def handle(message: AlterReplicaLogDirsRequest, request: Request) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(results=list(_results(message, request.node)))


def _results(message: AlterReplicaLogDirsRequest, node: Node) -> Iterator[AlterReplicaLogDirTopicResult]:
    for directory in {item.path: item for item in message.dirs}.values():
        is_ours = directory.path == node.world.disk.location
        for topic, indexes in distinct((item.name, item.partitions) for item in directory.topics).items():
            yield AlterReplicaLogDirTopicResult(
                topic,
                [
                    AlterReplicaLogDirPartitionResult(
                        index, _standing(node, topic, index) if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
                    )
                    for index in indexes
                ],
            )


def _standing(node: Node, topic: str, index: int) -> ErrorCode:
    if node.topics.find(topic, index) is not None:
        return ErrorCode.NONE
    known = node.image.topic_named(topic)
    is_elsewhere = known is not None and index in known.partitions
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
