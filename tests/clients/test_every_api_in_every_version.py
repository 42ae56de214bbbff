"""Each API answers in each version that it offers, in that version's own layout: no client is left without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.apis import SERVED
from headrace.wire.api import APIS, ApiKey
from headrace.wire.messages.alter_configs import AlterableConfig as OldAlterableConfig
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_configs import AlterConfigsResource as OldAlterConfigsResource
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.cluster_requests import cluster_request_of
from tests.clients.coordinated_requests import group_request_of, offsets_request_of, transaction_request_of
from tests.clients.nodes import new_name
from tests.clients.raw_connection import PLENTY, Closed, RawConnection, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import TopicId
    from headrace.wire.api import Message
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

TOPIC = 2  # the number of that kind of resource
MISSING = "there-is-no-such-topic"
UNKNOWN_ID = b"\x42" * 16


def request_of(key: ApiKey, version: int, topic: str, topic_id: TopicId) -> Message:
    """A request with something in it: a topic that exists, and one that does not where that is possible."""
    match key:
        case ApiKey.PRODUCE:
            part = [PartitionProduceData(0, bytes(batch_of(b"value")))]
            found = TopicProduceData(topic, topic_id, part)
            lost = TopicProduceData(MISSING, UNKNOWN_ID, part)
            return ProduceRequest(None, -1, 10_000, [found, lost])
        case ApiKey.FETCH:
            wanted = [FetchPartition(fetch_offset=0, partition_max_bytes=PLENTY)]
            return FetchRequest(
                session_epoch=0 if version >= 7 else -1,
                topics=[FetchTopic(topic, topic_id, wanted), FetchTopic(MISSING, UNKNOWN_ID, wanted)],
            )
        case ApiKey.LIST_OFFSETS:
            places = [ListOffsetsPartition(0, -1, (-1, -2, 0)[version % 3])]
            return ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, places), ListOffsetsTopic(MISSING, places)])
        case ApiKey.METADATA:
            # Up to version 3 it creates what is missing.
            named = [MetadataRequestTopic(name=topic), MetadataRequestTopic(name=new_name("made"))]
            return MetadataRequest(named, allow_auto_topic_creation=version < 4)
        case ApiKey.FIND_COORDINATOR:
            return (
                FindCoordinatorRequest(key="group") if version < 4 else FindCoordinatorRequest(coordinator_keys=["a"])
            )
        case ApiKey.API_VERSIONS:
            return ApiVersionsRequest("test", "1.0")
        case ApiKey.CREATE_TOPICS:
            return CreateTopicsRequest([CreatableTopic(new_name("made"), 1, 1), CreatableTopic("no/name", 1, 1)])
        case ApiKey.DELETE_TOPICS if version < 6:
            return DeleteTopicsRequest(topic_names=[MISSING])
        case ApiKey.DELETE_TOPICS:
            return DeleteTopicsRequest([DeleteTopicState(MISSING), DeleteTopicState(None, UNKNOWN_ID)])
        case ApiKey.DELETE_RECORDS:
            parts = [DeleteRecordsPartition(0, 0)]
            return DeleteRecordsRequest([DeleteRecordsTopic(topic, parts), DeleteRecordsTopic(MISSING, parts)], 1000)
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdRequest(None, 60_000)
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epochs = [OffsetForLeaderPartition(0, -1, 0)]
            return OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic, epochs), OffsetForLeaderTopic(MISSING, epochs)]
            )
        case _:
            topics = {topic: topic_id, MISSING: UNKNOWN_ID}
            return (
                group_request_of(key, version, topic)
                or offsets_request_of(key, version, topics)
                or transaction_request_of(key, version, topics)
                or cluster_request_of(key, version, topic, MISSING)
                or config_or_cluster_request_of(key, version, topic)
            )


def config_or_cluster_request_of(key: ApiKey, version: int, topic: str) -> Message:
    match key:
        case ApiKey.DESCRIBE_CONFIGS:
            return DescribeConfigsRequest(
                [DescribeConfigsResource(TOPIC, topic, None), DescribeConfigsResource(TOPIC, MISSING, None)],
                include_synonyms=True,
                include_documentation=version >= 3,
            )
        case ApiKey.ALTER_CONFIGS:
            change = [OldAlterableConfig("retention.ms", "1000000")]
            return AlterConfigsRequest([OldAlterConfigsResource(TOPIC, name, change) for name in (topic, MISSING)])
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            edit = [AlterableConfig("retention.ms", 0, "1000000")]
            return IncrementalAlterConfigsRequest(
                [AlterConfigsResource(TOPIC, name, edit) for name in (topic, MISSING)]
            )
        case ApiKey.DESCRIBE_LOG_DIRS:
            return DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0]), DescribableLogDirTopic(MISSING, [0])])
        case ApiKey.CREATE_PARTITIONS:
            return CreatePartitionsRequest(
                [CreatePartitionsTopic(topic, 2, None), CreatePartitionsTopic(MISSING, 2, None)], 1000, True
            )
        case ApiKey.DESCRIBE_CLUSTER:
            return DescribeClusterRequest()
        case ApiKey.LIST_CONFIG_RESOURCES:
            return ListConfigResourcesRequest()
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return DescribeTopicPartitionsRequest([TopicRequest(topic), TopicRequest(MISSING)])
        case _:
            raise AssertionError(f"{key.name} is served; say here how to ask for it")


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name.lower())
def test_every_version_is_answered_in_its_own_layout(node: NodeProcess, topic: str, key: ApiKey) -> None:
    with RawConnection(node.bootstrap_servers) as connection:
        topic_id = connection.topic_id(topic)
        for kind in (0, 1):  # the coordinators of groups and transactions
            assert connection.ask(FindCoordinatorRequest("any", kind), 3).error_code == ErrorCode.NONE
        for version in range(APIS[key].version_min, APIS[key].version_max + 1):
            answer = connection.ask(request_of(key, version, topic, topic_id), version)
            first_error, *others = error_codes(answer)
            assert first_error in FIRST_ERRORS.get(key, {ErrorCode.NONE}), f"version {version}: {answer}"
            if key in NAMES_A_MISSING_TOPIC:
                assert any(others), f"version {version} says nothing about what is missing: {answer}"


FIRST_ERRORS = {
    ApiKey.DELETE_TOPICS: {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    # None of these groups, members and transactions exist.
    ApiKey.JOIN_GROUP: {ErrorCode.INVALID_SESSION_TIMEOUT},
    ApiKey.SYNC_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.HEARTBEAT: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.LEAVE_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE},  # from version 3 on it is said of each member
    ApiKey.DESCRIBE_GROUPS: {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND},  # an error from version 6 on
    ApiKey.CONSUMER_GROUP_DESCRIBE: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.DELETE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.OFFSET_DELETE: {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE},  # another test may have committed for it
    ApiKey.ADD_OFFSETS_TO_TXN: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.TXN_OFFSET_COMMIT: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.END_TXN: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.WRITE_TXN_MARKERS: {ErrorCode.INVALID_TXN_STATE},
    ApiKey.DESCRIBE_TRANSACTIONS: {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
    ApiKey.UNREGISTER_BROKER: {ErrorCode.BROKER_ID_NOT_REGISTERED},
    ApiKey.DRAIN_NODE: {ErrorCode.BROKER_ID_NOT_REGISTERED},
    ApiKey.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},  # nobody logs in here
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
    ApiKey.DESCRIBE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.CREATE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.DELETE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {ErrorCode.LOG_DIR_NOT_FOUND},
    ApiKey.ADD_RAFT_VOTER: {ErrorCode.UNSUPPORTED_VERSION},
    ApiKey.REMOVE_RAFT_VOTER: {ErrorCode.UNSUPPORTED_VERSION},
}

NAMES_A_MISSING_TOPIC = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
}


def error_codes(message: object) -> Iterator[int]:
    """Every error code in an answer, outermost first."""
    fields = getattr(message, "__dataclass_fields__", {})
    for name in fields:
        if name.endswith("error_code"):
            yield getattr(message, name)
    for name in fields:
        value = getattr(message, name)
        for item in value if isinstance(value, list) else ():
            yield from error_codes(item)


def test_what_is_offered_is_what_is_served(node: NodeProcess) -> None:
    with RawConnection(node.bootstrap_servers) as connection:
        answer = connection.ask(ApiVersionsRequest("test", "1.0"))
    offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert offered.keys() == set(SERVED)
    for key, (low, high) in offered.items():
        # Older librdkafka compresses only where Produce 0 is on offer, which it never sends.
        assert low == (0 if key == ApiKey.PRODUCE else APIS[key].version_min)
        assert high == APIS[key].version_max


def test_api_versions_of_the_future_are_answered_in_the_oldest_form(node: NodeProcess) -> None:
    with RawConnection(node.bootstrap_servers) as connection:
        connection.send_bytes(bytes.fromhex("0000000e 0012 0063 00000001 0004") + b"test")
        answer = connection.receive(ApiKey.API_VERSIONS, 0, correlation_id=1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {api.api_key for api in answer.api_keys} == set(SERVED)
        # The connection is good for another try.
        assert connection.ask(ApiVersionsRequest("test", "1.0"), 3).api_keys


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, APIS[ApiKey.PRODUCE].version_max + 1),
        (ApiKey.FETCH, 3),
        (ApiKey.METADATA, 99),
        (ApiKey.JOIN_GROUP, 5),
        (9999, 0),
        (-1, 0),
    ],
)
def test_what_is_not_served_closes_the_connection(node: NodeProcess, key: int, version: int) -> None:
    header = key.to_bytes(2, signed=True) + version.to_bytes(2) + (1).to_bytes(4) + b"\x00\x00"
    with RawConnection(node.bootstrap_servers) as connection:
        connection.send_bytes(len(header).to_bytes(4) + header)
        with pytest.raises(Closed):
            connection.receive_frame()
    with RawConnection(node.bootstrap_servers) as another:
        assert another.ask(ApiVersionsRequest("test", "1.0")).error_code == ErrorCode.NONE
