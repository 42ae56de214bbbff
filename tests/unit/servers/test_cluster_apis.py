"""What one node answers about the cluster that it is; real clusters are in tests/clients."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.runtime.network import Address
from headrace.servers.kafka.build import kafka_server
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from headrace.wire.messages.drain_node import DrainNodeRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.plan_rebalance import PlanRebalanceRequest
from headrace.wire.messages.raft_append_entries import RaftAppendEntriesRequest
from headrace.wire.messages.raft_request_vote import RaftRequestVoteRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.servers.living_server import Client, living_server

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "events"
ALONE = 1
ABSENT = 9


def move(partition: int, replicas: list[int] | None, topic: str = TOPIC) -> ReassignableTopic:
    return ReassignableTopic(topic, [ReassignablePartition(partition, replicas)])


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (move(0, [ALONE]), ErrorCode.NONE),
        (move(0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (move(0, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (move(0, [ALONE, ALONE]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (move(0, [ABSENT]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (move(5, [ALONE]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (move(0, [ALONE], "missing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_moves_are_answered_one_by_one(tmp_path: Path, wanted: ReassignableTopic, code: ErrorCode) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        answer = await client.ask(AlterPartitionReassignmentsRequest(topics=[wanted, move(0, [ALONE])]), 1)
        assert answer.error_code == ErrorCode.NONE
        first, second = (topic.partitions[0] for topic in answer.responses)
        assert (first.error_code, second.error_code) == (code, ErrorCode.NONE)
        assert (first.error_message is None) == (code is ErrorCode.NONE)
        assert (await client.ask(ListPartitionReassignmentsRequest(), 0)).topics == []


async def test_the_number_of_replicas_stays_where_it_was_asked_to(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        wanted = [move(0, [ALONE, ABSENT])]
        answer = await client.ask(AlterPartitionReassignmentsRequest(1000, False, wanted), 1)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_elections_that_are_not_needed(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        named = await client.ask(ElectLeadersRequest(0, [TopicPartitions(TOPIC, [0, 7, 0])]), 2)
        (topic,) = named.replica_election_results
        assert [(part.partition_id, part.error_code) for part in topic.partition_result] == [
            (0, ErrorCode.ELECTION_NOT_NEEDED),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert (await client.ask(ElectLeadersRequest(0, None), 2)).replica_election_results == []
        assert (await client.ask(ElectLeadersRequest(5, None), 2)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_quorum_of_one(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        client = await server.connect()
        topics = [TopicData("__cluster_metadata", [PartitionData(0)]), TopicData(TOPIC, [PartitionData(0)])]
        for version in range(3):
            answer = await client.ask(DescribeQuorumRequest(topics), version)
            found, other = (topic.partitions[0] for topic in answer.topics)
            assert (found.leader_id, found.leader_epoch) == (ALONE, server.node.quorum.raft.term)
            assert [voter.replica_id for voter in found.current_voters] == [ALONE]
            assert found.current_voters[0].log_end_offset == found.high_watermark > 0
            assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_last_node_cannot_be_drained_or_forgotten(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        assert (await client.ask(DrainNodeRequest(ALONE), 0)).error_code == ErrorCode.INVALID_REQUEST
        assert (await client.ask(DrainNodeRequest(ABSENT), 0)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert (await client.ask(UnregisterBrokerRequest(ALONE), 0)).error_code == ErrorCode.INVALID_REQUEST
        assert (await client.ask(UnregisterBrokerRequest(ABSENT), 0)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        (broker,) = (await client.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)).brokers
        assert (broker.is_fenced, broker.is_draining) == (False, False)


async def test_a_node_alone_has_nothing_to_rebalance(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC, partitions=5)
        client = await server.connect()
        plan = await client.ask(PlanRebalanceRequest(), 0)
        assert (plan.error_code, plan.topics, plan.stuck_replicas) == (ErrorCode.NONE, [], 0)
        assert (await client.ask(PlanRebalanceRequest(ABSENT), 0)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_nobody_passes_for_a_follower_where_clients_come_in(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        topic_id = next(iter(server.node.topics)).topic_id
        wanted = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, flushed_offset=1000)])]
        answer = await client.ask(FetchRequest(replica_state=ReplicaState(ABSENT, 1), topics=wanted), 17)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        old = [FetchTopic(TOPIC, partitions=[FetchPartition(0)])]
        answer = await client.ask(FetchRequest(replica_id=ABSENT, topics=old), 12)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await client.ask(FetchRequest(replica_id=ABSENT, topics=old), 6)).responses == []
        assert (await client.ask(FetchRequest(topics=wanted), 17)).error_code == ErrorCode.NONE
        assert server.node.heard_followers.at_ms == {}


async def test_letters_of_another_cluster_damaged_ones_and_absurd_ones_change_nothing(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        meeting = kafka_server(server.node, is_for_nodes=True)
        place = await meeting.start(Address("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(*place)
        client = Client(reader, writer)
        term, cluster_id = server.node.quorum.raft.term, server.node.image.cluster_id or ""
        vote = RaftRequestVoteRequest(ALONE, "another", ABSENT, b"d" * 16, term + 5, term, 1000)
        assert (await client.ask(vote, 0)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (await client.ask(replace(vote, target=ABSENT), 0)).error_code == ErrorCode.INVALID_VOTER_KEY
        damaged = RaftAppendEntriesRequest(ALONE, cluster_id, ABSENT, b"d" * 16, term + 5, entries=b"x" * 100)
        assert (await client.ask(damaged, 0)).error_code == ErrorCode.CORRUPT_MESSAGE
        nameless = replace(damaged, cluster_id="", entries=b"")
        assert (await client.ask(nameless, 0)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        leap = replace(damaged, term=2**31 - 1, entries=b"")
        assert (await client.ask(leap, 0)).error_code == ErrorCode.INVALID_REQUEST
        assert server.node.quorum.raft.term == term
        writer.close()
        await meeting.stop()
