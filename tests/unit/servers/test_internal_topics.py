"""The coordinators' own topics, and names that come close to what their records can hold: what clients cannot spoil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.errors import ErrorCode
from headrace.model.names import ID_BYTES_MAX
from headrace.servers.kafka.asking import CLIENT_ID_MAX
from headrace.wire.batches.records import encode_batch
from headrace.wire.frames import RequestHeader, decode_response, encode_request
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.servers.living_server import living_server, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.servers.living_server import Client

METADATA = 9
CREATE_TOPICS = 5
PRODUCE = 11
FIND_COORDINATOR = 4
JOIN_GROUP = 3  # whoever asks is a member at once
NEWER_JOIN_GROUP = 9
SYNC_GROUP = 3
LIST_GROUPS = 4
INIT_PRODUCER_ID = 4
HEARTBEAT = DESCRIBE = 1  # of groups of the newer protocol
GROUPS, TRANSACTIONS = 0, 1  # what FindCoordinator calls them
SESSION_MS = 6_000


async def find_coordinator(client: Client) -> None:
    found = await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FIND_COORDINATOR)
    assert found.coordinators[0].error_code == 0


def join(group_id: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group_id, SESSION_MS, SESSION_MS, "", None, "consumer", protocols)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
async def test_clients_write_nothing_into_them(tmp_path: Path, topic: str) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(topic)
        client = await server.connect()
        batch = bytes(encode_batch([(1_700_000_000_000, b"key", b"no record of a coordinator", ())]))
        request = ProduceRequest(
            None, -1, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
        )
        answer = await client.ask(request, PRODUCE)
        (outcome,) = answer.responses[0].partition_responses
        assert outcome.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert server.node.topics.partition(topic, 0).log.next_offset == 0


async def test_clients_delete_nothing_from_them(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await client.ask(FindCoordinatorRequest(key_type=TRANSACTIONS, coordinator_keys=["t"]), FIND_COORDINATOR)
        while (await client.ask(InitProducerIdRequest("t", 60_000), INIT_PRODUCER_ID)).error_code:
            pass  # its coordinator loads
        logs = [partition.log for partition in server.node.topics.partitions()]
        assert sum(log.next_offset for log in logs) == 1
        everything = [DeleteRecordsPartition(index, -1) for index in range(len(logs))]
        answer = await client.ask(DeleteRecordsRequest([DeleteRecordsTopic(TRANSACTION_STATE, everything)], 10_000), 2)
        codes = {part.error_code for part in answer.topics[0].partitions}
        assert codes == {ErrorCode.POLICY_VIOLATION}
        assert sum(log.start_offset for log in logs) == 0


async def test_what_a_client_makes_of_them_keeps_what_is_committed(tmp_path: Path) -> None:
    """Made by hand before anybody needs it, as tools that copy clusters do; with what it says left out or harmless."""
    async with living_server(tmp_path) as server:
        client = await server.connect()
        harmful = {"cleanup.policy": "delete", "retention.ms": "1", "segment.ms": "1"}
        for configs, code in ((harmful, ErrorCode.INVALID_CONFIG), ({"segment.ms": "60000"}, ErrorCode.NONE)):
            named = [CreatableTopicConfig(name, value) for name, value in configs.items()]
            wanted = [CreatableTopic(CONSUMER_OFFSETS, 3, 1, configs=named)]
            (made,) = (await client.ask(CreateTopicsRequest(wanted), CREATE_TOPICS)).topics
            assert made.error_code == code
        set_for_it = server.node.image.configs_of(ConfigResource(ResourceKind.TOPIC, CONSUMER_OFFSETS))
        assert (set_for_it["cleanup.policy"], set_for_it["segment.ms"]) == ("compact", "60000")
        await find_coordinator(client)
        assert (await client.ask(join("g"), JOIN_GROUP)).error_code == ErrorCode.NONE


async def test_asked_for_by_name_they_are_made_as_their_coordinators_need_them(tmp_path: Path) -> None:
    async with living_server(tmp_path, offsets_topic_num_partitions="4") as server:
        client = await server.connect()
        await client.ask(MetadataRequest([MetadataRequestTopic(name=CONSUMER_OFFSETS)]), METADATA)
        image = server.node.image
        topic = image.topic_named(CONSUMER_OFFSETS)
        assert topic is not None
        assert topic.partition_count == 4
        assert image.configs_of(ConfigResource(ResourceKind.TOPIC, CONSUMER_OFFSETS))["cleanup.policy"] == "compact"


async def test_a_name_that_no_record_can_hold_costs_its_client_the_connection_and_nobody_else(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client, other = await server.connect(), await server.connect()
        await find_coordinator(client)
        client.begin(join("g" * 40_000), NEWER_JOIN_GROUP)
        assert await client.frame() is None
        await find_coordinator(other)
        assert not server.node.failed.done()


@pytest.mark.parametrize("letter", ["x", "ü"])
async def test_ids_of_which_a_batch_could_not_hold_hundreds_are_refused(tmp_path: Path, letter: str) -> None:
    longest = letter * (ID_BYTES_MAX // len(letter.encode()))
    async with living_server(tmp_path) as server:
        client = await server.connect()
        for kind in (GROUPS, TRANSACTIONS):
            await client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[longest]), FIND_COORDINATOR)
        for id_, group_code, code in (
            (longest, ErrorCode.NONE, ErrorCode.NONE),
            (f"{longest}x", ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_REQUEST),
        ):
            assert (await client.ask(join(id_), JOIN_GROUP)).error_code == group_code
            assert (await client.ask(InitProducerIdRequest(id_, 60_000), INIT_PRODUCER_ID)).error_code == code
        listed = await client.ask(ListGroupsRequest(), LIST_GROUPS)
        assert [group.group_id for group in listed.groups] == [longest]


async def test_of_a_long_name_of_a_client_the_group_keeps_only_the_beginning(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await find_coordinator(client)
        beat = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, SESSION_MS, ["t"], None, None, [])
        header = RequestHeader(beat.API_KEY, HEARTBEAT, 1, "c" * (CLIENT_ID_MAX + 1))
        client.writer.write(encode_request(header, beat))
        assert await client.frame() is not None, "the connection was closed instead of answered"
        answer = await client.ask(ConsumerGroupDescribeRequest(["g"]), DESCRIBE)
        (member,) = answer.groups[0].members
        assert member.client_id == "c" * CLIENT_ID_MAX


async def test_the_longest_name_of_a_client_makes_a_member_that_can_be_kept(tmp_path: Path) -> None:
    async with living_server(tmp_path, group_initial_rebalance_delay_ms="0") as server:
        client = await server.connect()
        await find_coordinator(client)
        request = join("g")
        client.writer.write(encode_request(RequestHeader(request.API_KEY, JOIN_GROUP, 1, "c" * 32_767), request))
        frame = await client.frame()
        assert frame is not None, "the connection was closed instead of answered"
        _, joined = decode_response(frame, request.API_KEY, JOIN_GROUP)
        assert isinstance(joined, JoinGroupResponse)
        share = [SyncGroupRequestAssignment(joined.member_id, b"all")]
        given = await client.ask(SyncGroupRequest("g", 1, joined.member_id, assignments=share), SYNC_GROUP)
        assert given.assignment == b"all"


async def test_a_log_that_cannot_be_loaded_is_offline_and_the_other_coordinators_work(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await find_coordinator(client)
        partition = server.node.topics.partition(CONSUMER_OFFSETS, 3)
        partition.writer.append(encode_batch([(1_700_000_000_000, b"?", b"no record of a coordinator", ())]))
    async with living_server(tmp_path) as server:
        served = server.node.topics.topic(partition.log_id.topic_id)
        assert served is not None
        await until(lambda: 3 in served.troubles)
        assert "in the last record with the key b'?'" in served.troubles[3]
        client = await server.connect()
        while (listed := await client.ask(ListGroupsRequest(), LIST_GROUPS)).error_code:
            assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not server.node.failed.done()
