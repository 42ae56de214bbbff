"""DescribeTopicPartitions (key 75): topics in pages, for clients that cannot take all partitions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation, ResourceType
from headrace.broker.partitions.topic_table import missing_topic_code
from headrace.metadata.configs.internal_topics import is_internal
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.authorized_operations import ON_TOPIC
from headrace.servers.kafka.handlers.topics.leaders import ToldLeaders, leader_error
from headrace.servers.kafka.rights import Each, Right, Rights, Scene, Told
from headrace.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

if TYPE_CHECKING:
    from headrace.broker.membership.reachability import Reachability
    from headrace.broker.metadata.view import MetadataView
    from headrace.broker.partitions.topic_table import TopicTable
    from headrace.metadata.image.cluster_image import Partition, Topic
    from headrace.model.errors import Refusal
    from headrace.servers.kafka.interfaces import Request

PAGE_MAX: Final = 2000  # Kafka's max.request.partition.size.limit


def _refused(topic: TopicRequest, refusal: Refusal) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(refusal.code, topic.name)


def _all(scene: Scene) -> list[TopicRequest]:
    return [TopicRequest(topic.name) for topic in scene.image.sorted_topics()]


SEE: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "name")
RIGHTS = Rights(
    each=(Each("topics", "topics", _refused, SEE, all=_all),),
    told=(Told(("topics",), "topic_authorized_operations", ResourceType.TOPIC, "name"),),
)


def handle(
    message: DescribeTopicPartitionsRequest,
    request: Request,
    view: MetadataView,
    topics: TopicTable,
    reachability: Reachability,
) -> DescribeTopicPartitionsResponse:
    image = view.image
    leaders = ToldLeaders(view, topics, reachability)
    names = sorted({topic.name for topic in message.topics}) or [topic.name for topic in image.sorted_topics()]
    first_partition = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        if names and names[0] == message.cursor.topic_name:
            first_partition = max(message.cursor.partition_index, 0)
    room = min(message.response_partition_limit, PAGE_MAX) if message.response_partition_limit > 0 else PAGE_MAX
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topic_named(name)
        if topic is None:
            code = missing_topic_code(name)
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(code, name, topic_authorized_operations=ON_TOPIC)
            )
            continue
        if room == 0:
            response.next_cursor = Cursor(name, 0)
            break
        first_partition = min(first_partition, topic.partition_count)
        last = min(first_partition + room, topic.partition_count)
        response.topics.append(_described(leaders, topic, range(first_partition, last)))
        room -= last - first_partition
        first_partition = 0
        if last < topic.partition_count:
            response.next_cursor = Cursor(name, last)
            break
    return response


def _described(leaders: ToldLeaders, topic: Topic, page: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        is_internal(topic.name),
        [_partition(leaders, topic, topic.partitions[index]) for index in page],
        ON_TOPIC,  # always: the request has no flag for it
    )


def _partition(leaders: ToldLeaders, topic: Topic, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    leader = leaders.serving(topic, partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=leader_error(leader),
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=[],
        offline_replicas=leaders.offline_replicas(topic, partition),
    )
