"""ListPartitionReassignments (key 46): which replicas are on the move. What is not moving is not mentioned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import Partition, Topic
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=words_of(ListPartitionReassignmentsResponse))


def handle(
    message: ListPartitionReassignmentsRequest, request: Request, view: MetadataView
) -> ListPartitionReassignmentsResponse:
    image = view.image
    if message.topics is None:
        found = [_moving(topic, range(topic.partition_count)) for topic in image.sorted_topics()]
    else:
        named = ((image.topic_named(wanted.name), wanted.partition_indexes) for wanted in message.topics)
        found = [_moving(topic, indexes) for topic, indexes in named if topic is not None]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[topic for topic in found if topic.partitions])


def _moving(topic: Topic, indexes: Collection[int]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(topic.name, [_ongoing(partition) for partition in _known(topic, indexes)])


def _known(topic: Topic, indexes: Collection[int]) -> Iterator[Partition]:
    """Each once, however often it was asked for."""
    for index in sorted(set(indexes)):
        partition = topic.partitions.get(index)
        if partition is not None and partition.is_moving:
            yield partition


def _ongoing(partition: Partition) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition.partition, list(partition.replicas), list(partition.adding), list(partition.removing)
    )
