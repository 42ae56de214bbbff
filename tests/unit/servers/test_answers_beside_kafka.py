"""What Kafka's tools and admin clients ask besides topics and groups. The numbers are what Apache Kafka 4.3 answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.names import TopicId
from headrace.servers.kafka.handlers.acls.describe_acls import IN_WORDS_MAX
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.messages.describe_acls import DescribeAclsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.servers.living_server import Client, living_server

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "events"
MISSING = "missing"
GROUP_RESOURCE = 32
DIRECTORY = TopicId(b"\x07" * 16)
NOT_ASKED_FOR = -(2**31)
ON_TOPIC, ON_GROUP, ON_CLUSTER = 3576, 3400, 8096


@pytest.mark.parametrize(("asked", "expected"), [(True, ON_TOPIC), (False, NOT_ASKED_FOR)])
async def test_what_may_be_done_with_topics(tmp_path: Path, asked: bool, expected: int) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        named = [MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name=MISSING)]
        for topics in (named, None):
            wanted = MetadataRequest(topics, False, include_topic_authorized_operations=asked)
            for version in (8, 12):
                answer = await client.ask(wanted, version)
                assert {topic.topic_authorized_operations for topic in answer.topics} == {expected}
        unknown = MetadataRequestTopic(DIRECTORY, None)
        answer = await client.ask(MetadataRequest([unknown], False, include_topic_authorized_operations=asked), 12)
        assert answer.topics[0].topic_authorized_operations == NOT_ASKED_FOR


async def test_what_was_asked_for_once_is_not_told_to_everybody(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        seen = []
        for asked in (False, True, False):
            answer = await client.ask(MetadataRequest(None, False, include_topic_authorized_operations=asked), 12)
            seen.append(answer.topics[0].topic_authorized_operations)
        assert seen == [NOT_ASKED_FOR, ON_TOPIC, NOT_ASKED_FOR]


@pytest.mark.parametrize(("asked", "expected"), [(True, ON_CLUSTER), (False, NOT_ASKED_FOR)])
async def test_what_may_be_done_with_the_cluster(tmp_path: Path, asked: bool, expected: int) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        described = await client.ask(DescribeClusterRequest(asked), 2)
        metadata = await client.ask(MetadataRequest([], include_cluster_authorized_operations=asked), 8)
        assert described.cluster_authorized_operations == metadata.cluster_authorized_operations == expected


async def test_pages_of_topics_always_tell(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        answer = await client.ask(DescribeTopicPartitionsRequest([TopicRequest(TOPIC), TopicRequest(MISSING)]), 0)
        assert [topic.topic_authorized_operations for topic in answer.topics] == [ON_TOPIC, ON_TOPIC]


async def _joined(client: Client, group: str) -> Any:
    """What the group's first member hears, once its coordinator has been found and has read its log."""
    found = FindCoordinatorRequest(coordinator_keys=[group])
    while any(coordinator.error_code for coordinator in (await client.ask(found, 4)).coordinators):
        await asyncio.sleep(0.01)
    while True:
        joining = ConsumerGroupHeartbeatRequest(group, "m", 0, None, None, 60_000, [TOPIC], None, None, [])
        answer = await client.ask(joining, 0)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert answer.error_code == ErrorCode.NONE
            return answer
        await asyncio.sleep(0.01)


async def test_what_may_be_done_with_groups(tmp_path: Path) -> None:
    async with living_server(tmp_path, offsets_topic_num_partitions="1") as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        await _joined(client, "group")
        for asked, expected in ((True, ON_GROUP), (False, NOT_ASKED_FOR)):
            answer = await client.ask(ConsumerGroupDescribeRequest(["group", MISSING], asked), 0)
            assert [it.authorized_operations for it in answer.groups] == [expected, NOT_ASKED_FOR]
            dead = await client.ask(DescribeGroupsRequest([MISSING], asked), 5)
            assert dead.groups[0].authorized_operations == expected
            refused = await client.ask(DescribeGroupsRequest([MISSING], asked), 6)
            assert refused.groups[0].authorized_operations == NOT_ASKED_FOR


async def test_there_are_no_access_rules(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        described = await client.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        rules = [AclCreation(2, TOPIC, 3, "User:anna", "*", 3, 3)]
        for count in (0, 2, IN_WORDS_MAX + 1):
            created = await client.ask(CreateAclsRequest(rules * count), 3)
            assert [it.error_code for it in created.results] == [ErrorCode.SECURITY_DISABLED] * count
            filters = [DeleteAclsFilter(1, None, 1, None, None, 1, 1)] * count
            deleted = await client.ask(DeleteAclsRequest(filters), 3)
            assert [it.error_code for it in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * count


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type", "is_accepted"),
    [
        ("group.version", 1, 1, True),
        ("transaction.version", 2, 2, True),
        ("group.version", 9, 1, False),
        ("group.version", 0, 1, False),
        ("group.version", 0, 3, False),
        ("group.version", -1, 1, False),
        ("group.version", 1, 0, False),
        ("metadata.version", 30, 1, False),
        ("", 1, 1, False),
    ],
)
async def test_features_have_one_level(
    tmp_path: Path, name: str, level: int, upgrade_type: int, is_accepted: bool
) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        for version in (1, 2):
            update = FeatureUpdateKey(name, level, upgrade_type=upgrade_type)
            answer = await client.ask(UpdateFeaturesRequest(1000, [update]), version)
            assert answer.error_code == (ErrorCode.NONE if is_accepted else ErrorCode.INVALID_UPDATE_VERSION)
            assert len(answer.results) == (is_accepted and version == 1)
        offered = await client.ask(ApiVersionsRequest("test", "1.0"), 4)
        assert {it.name: it.max_version_level for it in offered.finalized_features} == {
            it.name: it.max_version for it in offered.supported_features if it.min_version == it.max_version
        }


async def test_the_oldest_way_to_ask_for_features(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        for may_downgrade in (False, True):
            update = FeatureUpdateKey("group.version", 0, may_downgrade)
            answer = await client.ask(UpdateFeaturesRequest(1000, [update]), 0)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


async def test_replicas_stay_in_the_one_directory(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()

        async def moved(path: str) -> dict[tuple[str, int], int]:
            topics = [AlterReplicaLogDirTopic(TOPIC, [0, 7, 0]), AlterReplicaLogDirTopic(MISSING, [0])]
            answer = await client.ask(AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)]), 2)
            return {
                (topic.topic_name, part.partition_index): part.error_code
                for topic in answer.results
                for part in topic.partitions
            }

        places = [(TOPIC, 0), (TOPIC, 7), (MISSING, 0)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await moved(server.node.world.disk.location) == dict(
            zip(places, [ErrorCode.NONE, unknown, unknown], strict=True)
        )
        for path in ("/elsewhere", "relative", ""):
            assert await moved(path) == dict.fromkeys(places, ErrorCode.LOG_DIR_NOT_FOUND)


@pytest.mark.parametrize(
    ("wanted", "version", "code"),
    [
        (
            AddRaftVoterRequest(None, 1000, 9, DIRECTORY, [Listener("N", "localhost", 9)]),
            1,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (AddRaftVoterRequest("other", 1000, 9, DIRECTORY, []), 1, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (AddRaftVoterRequest(None, 1000, -9, DIRECTORY, []), 0, ErrorCode.INVALID_REQUEST),
        (RemoveRaftVoterRequest(None, 1, DIRECTORY), 0, ErrorCode.UNSUPPORTED_VERSION),
        (RemoveRaftVoterRequest("other", 1, DIRECTORY), 0, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
)
async def test_voters_do_not_change_by_hand(tmp_path: Path, wanted: Any, version: int, code: ErrorCode) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        answer = await client.ask(wanted, version)
        assert (answer.error_code, bool(answer.error_message)) == (code, True)


async def test_kinds_of_settings_that_nobody_knows(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        for kinds, code in (([99], ErrorCode.UNSUPPORTED_VERSION), ([8, 16], ErrorCode.NONE)):
            answer = await client.ask(ListConfigResourcesRequest(kinds), 1)
            assert (answer.error_code, answer.config_resources) == (code, [])


async def test_a_group_keeps_its_own_times(tmp_path: Path) -> None:
    """Its members hear of them with their next heartbeat, and so they do after a restart."""
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    async def interval(client: Client, group: str) -> int:
        return int((await _joined(client, group)).heartbeat_interval_ms)

    async with living_server(tmp_path, offsets_topic_num_partitions="1") as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        edits = [AlterableConfig(heartbeat, 0, "7000"), AlterableConfig(session, 0, "50000")]
        altered = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, "slow", edits)])
        assert (await client.ask(altered, 1)).responses[0].error_code == ErrorCode.NONE
        assert (await interval(client, "slow"), await interval(client, "usual")) == (7000, 2000)
    async with living_server(tmp_path, offsets_topic_num_partitions="1") as server:
        client = await server.connect()
        assert await interval(client, "slow") == 7000
        listed = await client.ask(ListConfigResourcesRequest([GROUP_RESOURCE]), 1)
        assert [it.resource_name for it in listed.config_resources] == ["slow"]
        wanted = DescribeConfigsResource(GROUP_RESOURCE, "slow", [session])
        (described,) = (await client.ask(DescribeConfigsRequest([wanted]), 4)).results
        assert [(it.name, it.value, it.config_source) for it in described.configs] == [(session, "50000", 8)]
