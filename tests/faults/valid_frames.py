"""One valid request or more for every API that is served, in every version: what fuzzing starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.servers.kafka.apis import SERVED
from headrace.wire.api import APIS, ApiKey
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, encode_request
from headrace.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.clients import coordinated_requests
from tests.clients.cluster_requests import cluster_request_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import TopicId
    from headrace.wire.api import Message

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


def valid_frames(topic: str, topic_id: TopicId) -> list[tuple[str, bytes]]:
    """Named frames, length included, about a topic that exists."""
    frames = []
    for key in SERVED:
        for version in range(APIS[key].version_min, APIS[key].version_max + 1):
            for message in _messages(key, version, topic, topic_id):
                frame = encode_request(RequestHeader(key, version, 1, "fuzz"), message)
                frames.append((f"{key.name} v{version}", frame))
    return frames


def _messages(key: ApiKey, version: int, topic: str, topic_id: TopicId) -> Iterator[Message]:
    match key:
        case ApiKey.PRODUCE:
            yield from (_produce(version, topic, topic_id, batch) for batch in _batches())
        case ApiKey.FETCH:
            yield _fetch(version, topic, topic_id, session_epoch=-1)
            if version >= 7:
                yield _fetch(version, topic, topic_id, session_epoch=0)
        case ApiKey.METADATA:
            yield metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in (topic, "other")])
            if version >= 1:
                yield metadata.MetadataRequest(None)
        case ApiKey.LIST_OFFSETS:
            for timestamp in (-1, -2, -3, 1_700_000_000_000):
                parts = [list_offsets.ListOffsetsPartition(0, timestamp=timestamp)]
                yield list_offsets.ListOffsetsRequest(-1, topics=[list_offsets.ListOffsetsTopic(topic, parts)])
        case ApiKey.JOIN_GROUP | ApiKey.CONSUMER_GROUP_HEARTBEAT:
            for member_id in ("", coordinated_requests.MEMBER):
                yield from _some(coordinated_requests.group_request_of(key, version, topic, member_id))
        case _:
            topics = {topic: topic_id}
            coordinated = [
                *_some(coordinated_requests.group_request_of(key, version, topic)),
                *_some(coordinated_requests.offsets_request_of(key, version, topics)),
                *_some(coordinated_requests.transaction_request_of(key, version, topics)),
                *_some(cluster_request_of(key, version, topic, "other")),
            ]
            yield from coordinated or _admin(key, version, topic)


def _some(message: Message | None) -> list[Message]:
    return [] if message is None else [message]


def _batches() -> Iterator[bytes]:
    records = [(1_700_000_000_000 + place, b"key", b"value" * 5, (("header", b"x"),)) for place in range(5)]
    for codec in Codec:
        yield bytes(encode_batch(records, codec=codec))
    yield bytes(encode_batch(records, producer_id=4711, producer_epoch=0, base_sequence=0))


def _produce(version: int, topic: str, topic_id: TopicId, batch: bytes) -> Message:
    parts = [produce.PartitionProduceData(0, batch)]
    data = produce.TopicProduceData(topic, partition_data=parts)
    if version >= 13:
        data = produce.TopicProduceData(topic_id=topic_id, partition_data=parts)
    return produce.ProduceRequest(None, 1, 1000, [data])


def _fetch(version: int, topic: str, topic_id: TopicId, *, session_epoch: int) -> Message:
    parts = [fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=10_000)]
    wanted = fetch.FetchTopic(topic, partitions=parts)
    if version >= 13:
        wanted = fetch.FetchTopic(topic_id=topic_id, partitions=parts)
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=100_000, session_epoch=session_epoch, topics=[wanted]
    )


def _admin(key: ApiKey, version: int, topic: str) -> Iterator[Message]:
    match key:
        case ApiKey.FIND_COORDINATOR:
            yield (
                FindCoordinatorRequest("group") if version < 4 else FindCoordinatorRequest(coordinator_keys=["a", "b"])
            )
        case ApiKey.API_VERSIONS:
            yield ApiVersionsRequest() if version < 3 else ApiVersionsRequest("fuzz", "1.0")
        case ApiKey.CREATE_TOPICS:
            configs = [create_topics.CreatableTopicConfig("retention.ms", "1000")]
            yield create_topics.CreateTopicsRequest(
                [
                    create_topics.CreatableTopic("fresh", 1, 3, [], configs),  # too many replicas, until a mutation
                    create_topics.CreatableTopic("by-hand", -1, -1, [_assignment(0, 9)]),
                ]
            )
        case ApiKey.DELETE_TOPICS:
            if version < 6:
                yield delete_topics.DeleteTopicsRequest(topic_names=["gone"])
            else:
                yield delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState("gone")])
        case ApiKey.CREATE_PARTITIONS:
            yield create_partitions.CreatePartitionsRequest(
                [create_partitions.CreatePartitionsTopic(topic, 1, None)], validate_only=True
            )
        case ApiKey.DELETE_RECORDS:
            parts = [delete_records.DeleteRecordsPartition(0, 1)]
            yield delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic(topic, parts)], 1000)
        case ApiKey.INIT_PRODUCER_ID:
            yield InitProducerIdRequest(None, 1000)
            yield InitProducerIdRequest(coordinated_requests.TRANSACTION, 1000)
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            parts_ = [offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0)]
            wanted = [offset_for_leader_epoch.OffsetForLeaderTopic(topic, parts_)]
            yield offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=wanted)
        case ApiKey.DESCRIBE_LOG_DIRS:
            yield describe_log_dirs.DescribeLogDirsRequest([describe_log_dirs.DescribableLogDirTopic(topic, [0])])
            yield describe_log_dirs.DescribeLogDirsRequest(None)
        case ApiKey.DESCRIBE_CLUSTER:
            yield DescribeClusterRequest()
        case ApiKey.LIST_CONFIG_RESOURCES:
            yield ListConfigResourcesRequest([] if version < 1 else [TOPIC_RESOURCE, BROKER_RESOURCE])
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            cursor = describe_topic_partitions.Cursor(topic, 0)
            names = [describe_topic_partitions.TopicRequest(topic), describe_topic_partitions.TopicRequest("other")]
            yield describe_topic_partitions.DescribeTopicPartitionsRequest(names, 10, cursor)
        case _:
            yield from _configs(key, topic)


def _assignment(partition: int, node_id: int) -> create_topics.CreatableReplicaAssignment:
    return create_topics.CreatableReplicaAssignment(partition, [node_id])


def _configs(key: ApiKey, topic: str) -> Iterator[Message]:
    for kind, name in ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, "1")):
        match key:
            case ApiKey.DESCRIBE_CONFIGS:
                wanted = describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"])
                yield describe_configs.DescribeConfigsRequest([wanted])
                yield describe_configs.DescribeConfigsRequest(
                    [describe_configs.DescribeConfigsResource(kind, name, None)]
                )
            case ApiKey.ALTER_CONFIGS:
                values = [alter_configs.AlterableConfig("retention.ms", "86400000")]
                yield alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(kind, name, values)])
            case ApiKey.INCREMENTAL_ALTER_CONFIGS:
                edits = [incremental_alter_configs.AlterableConfig("cleanup.policy", 2, "delete")]
                resource = incremental_alter_configs.AlterConfigsResource(kind, name, edits)
                yield incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            case _:
                raise AssertionError(f"{key.name} is served, but there is no valid frame for it here")
