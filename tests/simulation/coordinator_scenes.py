"""A node that coordinates groups and transactions, alone or among others, and its clients."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.client.admin.admin import Admin
from headrace.client.admin.groups import GroupAdmin
from headrace.client.connections.connection import Connection
from headrace.coordinators.effects import Caller
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.errors import Refusal
from headrace.model.names import Epoch, NodeId, TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.wire.partitioning import partition_for_coordinated
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.broker.coordination.coordinators import GroupShard, TransactionShard
    from headrace.broker.coordination.shard import MindT, Shard
    from headrace.broker.node import Node
    from headrace.client.connections.connection import Answer
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.wire.api import Message

LIMIT_S = 120.0
LOOK_S = 0.05
SLOW = 1e3  # times longer than usual
NEVER = 1e6
CALLER = Caller("client", "/127.0.0.1", 3)
ANOTHER = NodeId(2)
ID = "transfers"
GROUP = "readers"


def play_alone(act: Callable[[NodeProcess, Node], Coroutine[Any, Any, Any]]) -> Any:
    """On the only node of a cluster: others are only told of."""

    async def play(universe: Universe) -> Any:
        cluster = await ready_cluster(universe, node_count=1)
        (process,) = cluster.nodes
        assert process.node is not None
        return await process.host.start(act(process, process.node), "client")

    return run(play, seed=1, limit_s=LIMIT_S)


def leads_elsewhere(node: Node, name: TopicPartition) -> None:
    """Follow the election of another node, as if it had been decided."""
    topic = node.image.topic_named(name.topic)
    assert topic is not None
    state = topic.partitions[name.partition]
    node.reconciler._take_role(
        node.topics.partition(*name), replace(state, leader=ANOTHER, leader_epoch=Epoch(state.leader_epoch + 1))
    )


async def loaded_transactions(node: Node) -> TransactionShard:
    await node.coordinators.prepare(TRANSACTION_STATE)
    return await loaded(lambda: node.coordinators.transactions_of(ID))


async def loaded_groups(node: Node) -> GroupShard:
    await node.coordinators.prepare(CONSUMER_OFFSETS)
    return await loaded(lambda: node.coordinators.groups_of(GROUP))


async def loaded(find: Callable[[], Shard[MindT]]) -> Shard[MindT]:
    while True:
        try:
            shard = find()
            shard.mind()
        except Refusal:
            await asyncio.sleep(LOOK_S)
        else:
            return shard


async def ask_node(process: NodeProcess, message: Message, answer: type[Answer], version: int | None = None) -> Answer:
    """As a client."""
    connection = await Connection.open(process.host.world.network, process.address, request_timeout_s=LIMIT_S)
    try:
        return await connection.request(message, answer, version=version)
    finally:
        connection.close()


async def create_topic(node: Node, name: str, *, partitions: int = 1) -> None:
    topic = NewTopic(name, partitions, 1)
    await node.commands.submit(
        lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id)
    )


def commit_of(offset: int, topic: str = "t") -> OffsetCommitRequest:
    place = OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, offset)])
    return OffsetCommitRequest(GROUP, topics=[place])


async def commit(process: NodeProcess, offset: int) -> None:
    answer = await ask_node(process, commit_of(offset), OffsetCommitResponse, version=9)
    assert answer.topics[0].partitions[0].error_code == 0


async def committed_offset(process: NodeProcess) -> int:
    wanted = OffsetFetchRequestTopics("t", partition_indexes=[0])
    message = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=[wanted])])
    (group,) = (await ask_node(process, message, OffsetFetchResponse, version=9)).groups
    assert group.error_code == 0
    return group.topics[0].partitions[0].committed_offset


async def commit_as_client(cluster: SimulatedCluster) -> None:
    async with cluster.client("client") as client:
        await Admin(client).create_topic("t", partitions=1, replication_factor=3)
        await GroupAdmin(client).commit(GROUP, {TopicPartition("t", 0): 5})


def coordinator_of_group(cluster: SimulatedCluster) -> NodeProcess:
    node = next(process.node for process in cluster.nodes if process.node is not None)
    topic = node.image.topic_named(CONSUMER_OFFSETS)
    assert topic is not None
    leader = topic.partitions[partition_for_coordinated(GROUP, topic.partition_count)].leader
    return next(process for process in cluster.nodes if process.node_id == leader)


def with_coordinator(node: Node, coordinator: NodeId, epochs: int = 0) -> ClusterImage:
    """What the node knows, but for who keeps the transactional id."""
    topic = node.image.topic_named(TRANSACTION_STATE)
    assert topic is not None
    index = partition_for_coordinated(ID, topic.partition_count)
    state = topic.partitions[index]
    led = replace(state, leader=coordinator, leader_epoch=Epoch(state.leader_epoch + epochs))
    after = replace(topic, partitions=topic.partitions.set(index, led))
    return replace(node.image, topics=node.image.topics.set(topic.topic_id, after))
