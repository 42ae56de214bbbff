"""Requests that are well formed and unreasonable: names, numbers, offsets, sessions, settings, and too many of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.incremental_alter_configs import AlterableConfig as ConfigEdit
from headrace.wire.messages.incremental_alter_configs import AlterConfigsResource as EditedResource
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.faults.hostile import HEALTHY_TOPIC, MIB, WatchedNode, framed, one_batch, request_start, watched_node

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST, GREATEST = -(2**63), 2**63 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
TOPIC_KIND, BROKER_KIND = 2, 4
BAD_NAMES = [
    "",
    ".",
    "..",
    "a/b",
    "../../etc",
    "a\0b",
    "\0",
    "x" * 250,
    "x" * 32_000,
    "a b",
    "ünïcode",
    "日本",
    "a\nb",
    "*",
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("requests")) as watched:
        with watched.connect() as client:
            assert client.create_topic("read", 3) == 0
            for _ in range(10):
                assert client.produce("read", one_batch()).error_code == 0
        yield watched


# ---- names


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_topic_is_not_created_under_a_bad_name(node: WatchedNode, version: int) -> None:
    with node.attacked(), node.connect() as client:
        wanted = [CreatableTopic(name, 1, 1) for name in BAD_NAMES]
        answer = client.ask(CreateTopicsRequest(wanted), version)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert [topic.name for topic in answer.topics] == BAD_NAMES


@pytest.mark.parametrize("version", [1, 4, 9, 12, 13])
def test_a_bad_name_in_metadata_creates_nothing(node: WatchedNode, version: int) -> None:
    with node.attacked(), node.connect() as client:
        answer = client.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in BAD_NAMES]), version)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        everything = client.ask(MetadataRequest(None), version)
        assert not {topic.name for topic in everything.topics} & set(BAD_NAMES)


def test_bad_names_elsewhere_are_unknown_topics(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for name in BAD_NAMES:
            unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
            assert client.produce(name, one_batch()).error_code in unknown
            assert client.fetch(name, 0).error_code in unknown
            wanted = ListOffsetsRequest(topics=[ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)])])
            assert client.ask(wanted, 5).topics[0].partitions[0].error_code in unknown
            deleted = client.ask(DeleteTopicsRequest([DeleteTopicState(name)]), 6)
            assert deleted.responses[0].error_code in unknown
            more = CreatePartitionsRequest([CreatePartitionsTopic(name, 5, None)])
            assert client.ask(more, 3).results[0].error_code in unknown
            described = DescribeTopicPartitionsRequest([TopicRequest(name)])
            assert client.ask(described, 0).topics[0].error_code in unknown


def test_names_that_differ_by_dot_and_underscore_collide(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        assert client.create_topic("a.b") == 0
        assert client.create_topic("a_b") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert client.create_topic("x" * 249) == 0


# ---- creating and changing


@pytest.mark.parametrize("count", [0, -2, INT32_MIN, 11_000, 10**6, INT32_MAX])
def test_absurd_partition_counts(node: WatchedNode, count: int) -> None:
    with node.attacked(), node.connect() as client:
        assert client.create_topic("absurd", count) == ErrorCode.INVALID_PARTITIONS
        more = client.ask(CreatePartitionsRequest([CreatePartitionsTopic("read", count, None)]), 3)
        assert more.results[0].error_code == ErrorCode.INVALID_PARTITIONS


def test_a_million_partitions_over_many_topics_of_one_request(node: WatchedNode) -> None:
    wanted = [CreatableTopic(f"many.{number}", 10_000, 1) for number in range(100)]
    with node.attacked(), node.connect() as client:
        answer = client.ask(CreateTopicsRequest(wanted, validate_only=True), 5)
        assert sum(topic.error_code == 0 for topic in answer.topics) == 1


@pytest.mark.parametrize("factor", [0, -2, 2, 2**15 - 1, -(2**15)])
def test_absurd_replication_factors(node: WatchedNode, factor: int) -> None:
    with node.attacked(), node.connect() as client:
        answer = client.ask(CreateTopicsRequest([CreatableTopic("absurd", 1, factor)]), 5)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_absurd_assignments(node: WatchedNode) -> None:
    absurd = [
        [(0, [])],
        [(0, [1, 1])],
        [(0, [INT32_MAX])],
        [(1, [1])],
        [(0, [1]), (0, [1])],
        [(INT32_MIN, [1]), (INT32_MAX, [1])],
        [(0, list(range(10_000)))],
    ]
    with node.attacked(), node.connect() as client:
        for places in absurd:
            assignments = [CreatableReplicaAssignment(*place) for place in places]
            answer = client.ask(CreateTopicsRequest([CreatableTopic("absurd", -1, -1, assignments)]), 5)
            assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


ABSURD_CONFIGS = [
    ("retention.ms", "-2"), ("retention.ms", ""), ("retention.ms", "soon"), ("retention.ms", str(2**63)),
    ("retention.ms", "9" * 30_000), ("retention.ms", "١٢"), ("segment.bytes", "0"), ("segment.bytes", "-1"),
    ("segment.bytes", "1e9"), ("cleanup.policy", "burn"), ("cleanup.policy", "compact,burn"),
    ("compression.type", "rot13"), ("min.insync.replicas", "0"), ("max.message.bytes", "-1"),
    ("message.timestamp.type", "Never"), ("no.such.setting", "1"), ("", ""), ("x" * 32_000, "y" * 32_000),
    ("preallocate", "perhaps"), ("retention.ms", None),
]  # fmt: skip


@pytest.mark.parametrize("version", [4, 5])
def test_absurd_settings_of_a_topic(node: WatchedNode, version: int) -> None:
    codes = {ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST}
    with node.attacked(), node.connect() as client:
        for name, value in ABSURD_CONFIGS:
            wanted = CreatableTopic("absurd", 1, 1, [], [CreatableTopicConfig(name, value)])
            answer = client.ask(CreateTopicsRequest([wanted]), version)
            assert answer.topics[0].error_code in codes, (name[:50], value)
            edited = EditedResource(TOPIC_KIND, "read", [ConfigEdit(name, 0, value)])
            answer = client.ask(IncrementalAlterConfigsRequest([edited]), 0)
            assert answer.responses[0].error_code in codes, (name[:50], value)
            replaced = AlterConfigsResource(TOPIC_KIND, "read", [AlterableConfig(name, value)])
            answer = client.ask(AlterConfigsRequest([replaced]), 1)
            assert answer.responses[0].error_code in codes, (name[:50], value)


def test_bad_operations_on_settings(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for operation in (-128, -1, 4, 127):
            edited = EditedResource(TOPIC_KIND, "read", [ConfigEdit("retention.ms", operation, "1000")])
            answer = client.ask(IncrementalAlterConfigsRequest([edited]), 1)
            assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
        for operation in (2, 3):
            edited = EditedResource(TOPIC_KIND, "read", [ConfigEdit("retention.ms", operation, "1000")])
            answer = client.ask(IncrementalAlterConfigsRequest([edited]), 1)
            assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
        twice = EditedResource(TOPIC_KIND, "read", [ConfigEdit("retention.ms", 0, "1")] * 2)
        answer = client.ask(IncrementalAlterConfigsRequest([twice, twice]), 1)
        assert {item.error_code for item in answer.responses} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", [1, 4])
def test_strange_resources(node: WatchedNode, version: int) -> None:
    strange = [(kind, name) for kind in (-128, -1, 0, 1, 2, 4, 8, 16, 32, 127) for name in ("", "nobody", "x" * 32_000)]
    with node.attacked(), node.connect() as client:
        wanted = [DescribeConfigsResource(kind, name, None) for kind, name in strange]
        wanted += [DescribeConfigsResource(BROKER_KIND, "1", ["x" * 32_000, ""])]
        answer = client.ask(DescribeConfigsRequest(wanted), version)
        assert len(answer.results) == len(wanted)
        edited = [EditedResource(kind, name, [ConfigEdit("retention.ms", 0, "1")]) for kind, name in strange]
        answer = client.ask(IncrementalAlterConfigsRequest(edited), version % 2)
        assert len(answer.responses) == len(edited)
        assert ErrorCode.NONE not in {item.error_code for item in answer.responses}


# ---- reading


@pytest.mark.parametrize("offset", [LEAST, -2, -1, 11, 2**31, 2**32 + 1, GREATEST])
def test_offsets_that_are_not_there(node: WatchedNode, offset: int) -> None:
    with node.attacked(), node.connect() as client:
        answered = client.fetch("read", offset, max_wait_ms=INT32_MAX, min_bytes=INT32_MAX)
        assert answered.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("limit", [INT32_MIN, -1, 0, 1, INT32_MAX])
@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_limits_of_a_fetch_at_their_edges(node: WatchedNode, limit: int, version: int) -> None:
    with node.attacked(), node.connect() as client:
        wanted = FetchTopic("read", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=limit)])
        for min_bytes in (INT32_MIN, 0, 1):
            request = FetchRequest(topics=[wanted], max_bytes=limit, min_bytes=min_bytes, max_wait_ms=INT32_MIN)
            answer = client.ask(request, version)
            part = answer.responses[0].partitions[0]
            assert part.error_code == 0
            assert part.records, "the first batch comes whatever the limit"


def test_a_fetch_that_would_wait_for_ever_is_answered_when_there_is_something(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client, node.connect() as writer:
        client.begin(FetchRequest(topics=[_read_from(1, 0)], min_bytes=1, max_wait_ms=INT32_MAX), 11)
        assert writer.produce("read", one_batch(), partition=1).error_code == 0
        frame = client.frame()
        assert frame is not None


def _read_from(partition: int, offset: int) -> FetchTopic:
    return FetchTopic("read", partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=MIB)])


def test_sessions_of_others_and_of_nobody(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client, node.connect() as thief:
        opened = client.ask(FetchRequest(topics=[_read_from(0, 10)], session_epoch=0), 11)
        session = opened.session_id
        assert session
        for epoch in (2, 7, INT32_MAX, -2, INT32_MIN):
            answer = thief.ask(FetchRequest(session_id=session, session_epoch=epoch), 11)
            assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        for unknown in (session + 1 if session < INT32_MAX else 1, -1, INT32_MIN):
            answer = thief.ask(FetchRequest(session_id=unknown, session_epoch=1), 11)
            assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        answer = thief.ask(FetchRequest(session_id=session, session_epoch=1), 13)
        assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        # Another client may close it; its owner is told and begins anew.
        thief.ask(FetchRequest(session_id=session, session_epoch=-1), 11)
        answer = client.ask(FetchRequest(session_id=session, session_epoch=1), 11)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_without_end_are_bounded(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for _ in range(1500):
            assert client.ask(FetchRequest(topics=[_read_from(0, 10)], session_epoch=0), 11).error_code == 0
        assert node.metric("headrace_fetch_sessions") <= 1000


def test_times_and_epochs_at_their_edges(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for timestamp in (LEAST, -100, -6, -5, -4, -3, -2, -1, 0, GREATEST):
            for version in (1, 5, 7, 9, 11):
                parts = [ListOffsetsPartition(0, timestamp=timestamp), ListOffsetsPartition(INT32_MIN, timestamp=0)]
                answer = client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic("read", parts)]), version)
                first, second = answer.topics[0].partitions
                assert first.error_code in {0, ErrorCode.UNSUPPORTED_VERSION}
                assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for epoch in (INT32_MIN, -1, 0, 5, INT32_MAX):
            for current in (INT32_MIN, -1, 0, 5, INT32_MAX):
                parts_ = [OffsetForLeaderPartition(0, current, epoch)]
                request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("read", parts_)])
                code = client.ask(request, 4).topics[0].partitions[0].error_code
                assert code in {0, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}


@pytest.mark.parametrize("offset", [LEAST, -2, 1000, GREATEST])
def test_records_that_are_not_there_cannot_be_deleted(node: WatchedNode, offset: int) -> None:
    with node.attacked(), node.connect() as client:
        wanted = DeleteRecordsTopic("read", [DeleteRecordsPartition(0, offset), DeleteRecordsPartition(77, 0)])
        first, second = client.ask(DeleteRecordsRequest([wanted], 1000), 2).topics[0].partitions
        assert first.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("partition", [INT32_MIN, -1, 0, 2, 3, INT32_MAX])
def test_pages_that_begin_nowhere(node: WatchedNode, partition: int) -> None:
    with node.attacked(), node.connect() as client:
        for limit in (INT32_MIN, 0, 1, INT32_MAX):
            for name in ("read", "", "\uffff", "r"):
                request = DescribeTopicPartitionsRequest([TopicRequest("read")], limit, Cursor(name, partition))
                answer = client.ask(request, 0)
                assert len(answer.topics) <= 1


def test_transactions_are_not_begun(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for transactional_id in ("", "t", "x" * 32_000):
            assert client.ask(InitProducerIdRequest(transactional_id, INT32_MIN), 4).error_code
        for producer_id, epoch in ((LEAST, -(2**15)), (GREATEST, 2**15 - 1), (5, -1)):
            answer = client.ask(InitProducerIdRequest(None, 0, producer_id, epoch), 4)
            assert answer.error_code in {0, ErrorCode.INVALID_REQUEST}


# ---- very many


@pytest.mark.parametrize(("count", "is_served"), [(40_000, True), (100_000, False)])
def test_very_many_topics_in_one_metadata_request(node: WatchedNode, count: int, is_served: bool) -> None:
    wanted = [MetadataRequestTopic(name=f"unknown.{number}") for number in range(count)]
    with node.attacked(grows_mib=100), node.connect() as client:
        client.begin(MetadataRequest(wanted, allow_auto_topic_creation=False), 9)
        assert (client.frame() is not None) == is_served


@pytest.mark.parametrize(("count", "is_served"), [(40_000, True), (100_000, False)])
def test_very_many_partitions_in_one_fetch(node: WatchedNode, count: int, is_served: bool) -> None:
    parts = [FetchPartition(index, partition_max_bytes=MIB) for index in range(count)]
    with node.attacked(grows_mib=100), node.connect() as client:
        client.begin(FetchRequest(topics=[FetchTopic("read", partitions=parts)]), 11)
        assert (client.frame() is not None) == is_served


def test_a_large_topic_is_described_once_however_often_it_is_named(node: WatchedNode) -> None:
    with node.connect() as client:
        assert client.create_topic("large", 1000) == 0
    with node.attacked(grows_mib=100), node.connect() as client:
        many = MetadataRequest([MetadataRequestTopic(name="large")] * 40_000)
        assert len(client.ask(many, 9).topics) == 1
        settings = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_KIND, "large", None)] * 20_000)
        assert len(client.ask(settings, 4).results) == 1


def a_million(api_key: ApiKey) -> bytes:
    """The body of a request that names a million things."""
    million = struct.pack(">i", 10**6)
    match api_key:
        case ApiKey.METADATA:
            return million + struct.pack(">h1s", 1, b"t") * 10**6 + b"\0"
        case ApiKey.DELETE_TOPICS:
            return million + struct.pack(">h1s", 1, b"t") * 10**6 + struct.pack(">i", 1000)
        case ApiKey.LIST_OFFSETS:
            return struct.pack(">iih4s", -1, 1, 4, b"read") + million + struct.pack(">iq", 0, -1) * 10**6
        case ApiKey.DELETE_RECORDS:
            return struct.pack(">ih4s", 1, 4, b"read") + million + struct.pack(">iq", 0, 0) * 10**6 + b"\0\0\0\0"
        case ApiKey.CREATE_PARTITIONS:
            return million + struct.pack(">h1sii", 1, b"t", 2, -1) * 10**6 + struct.pack(">ib", 1000, 0)
        case ApiKey.DESCRIBE_LOG_DIRS:
            return struct.pack(">ih4s", 1, 4, b"read") + million + struct.pack(">i", 0) * 10**6
        case _:
            raise AssertionError(api_key)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.METADATA, 4),
        (ApiKey.DELETE_TOPICS, 1),
        (ApiKey.LIST_OFFSETS, 1),
        (ApiKey.DELETE_RECORDS, 0),
        (ApiKey.CREATE_PARTITIONS, 0),
        (ApiKey.DESCRIBE_LOG_DIRS, 1),
    ],
)
def test_a_million_of_anything_is_refused(node: WatchedNode, api_key: ApiKey, version: int) -> None:
    with node.attacked(grows_mib=100), node.connect() as client:
        client.send(framed(request_start(api_key, version) + a_million(api_key)))
        assert client.is_refused()


def test_the_same_thing_a_thousand_times_in_one_request(node: WatchedNode) -> None:
    requests: list[tuple[Any, int]] = [
        (CreateTopicsRequest([CreatableTopic("same", 1, 1)] * 1000), 5),
        (DeleteTopicsRequest([DeleteTopicState("read")] * 1000), 6),
        (CreatePartitionsRequest([CreatePartitionsTopic("read", 5, None)] * 1000), 3),
        (DescribeConfigsRequest([DescribeConfigsResource(TOPIC_KIND, "read", None)] * 1000), 4),
        (MetadataRequest([MetadataRequestTopic(name="read")] * 1000), 9),
        (ListOffsetsRequest(topics=[ListOffsetsTopic("read", [ListOffsetsPartition(0, timestamp=5)] * 1000)]), 5),
        (FetchRequest(topics=[_read_from(0, 0)] * 1000), 11),
    ]
    with node.attacked(grows_mib=100), node.connect() as client:
        for message, version in requests:
            client.ask(message, version)
        assert client.fetch("read", 0).error_code == 0, "naming a topic twice does not delete it"
        assert client.fetch(HEALTHY_TOPIC, 0).error_code == 0
