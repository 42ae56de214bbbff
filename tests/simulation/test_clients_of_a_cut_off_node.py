"""A node that the others have lost knows nothing of that: whoever asks it alone is told what was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.connections.cluster import Cluster
from headrace.client.connections.connection import Connection
from headrace.client.producing.producer import BatchingProducer
from headrace.model.errors import ErrorCode
from headrace.model.names import TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 300.0
ELECTED_S = 30.0  # by then others lead what the lost node led
PLACE = TopicPartition("t", 0)


def test_a_client_of_a_cut_off_leader_finds_the_next_one() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", write_after_the_leader_was_cut_off(cluster))

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_cut_off_leader_says_where_to_look_and_that_it_does_not_know() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", ask_the_leader_that_was_cut_off(cluster))

    run(play, seed=1, limit_s=LIMIT_S)


async def ask_the_leader_that_was_cut_off(cluster: SimulatedCluster) -> None:
    await Admin(cluster.client("client")).create_topic(PLACE.topic, partitions=1, replication_factor=3)
    deposed = await leader_of(cluster, PLACE)
    others = [process for process in cluster.nodes if process is not deposed]
    cluster.universe.fabric.partition([deposed.host.name], [process.host.name for process in others])
    await asyncio.sleep(ELECTED_S)
    world = cluster.client_host("client").world
    connection = await Connection.open(world.network, deposed.address)
    answer = await connection.request(MetadataRequest([MetadataRequestTopic(name=PLACE.topic)]), MetadataResponse)
    (told,) = answer.topics[0].partitions
    connection.close()
    assert told.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    node = others[0].node
    assert node is not None
    topic = node.image.topic_named(PLACE.topic)
    assert topic is not None
    assert told.leader_id == topic.partitions[PLACE.partition].leader != deposed.node_id


async def write_after_the_leader_was_cut_off(cluster: SimulatedCluster) -> None:
    await Admin(cluster.client("client")).create_topic(PLACE.topic, partitions=1, replication_factor=3)
    leader = await leader_of(cluster, PLACE)
    world = cluster.client_host("client").world
    client = Cluster([leader.address], world.network, world.clock, world.entropy)
    async with client, BatchingProducer(client) as producer:
        await client.topic(PLACE.topic)
        others = [process.host.name for process in cluster.nodes if process is not leader]
        cluster.universe.fabric.partition([leader.host.name], others)
        await asyncio.sleep(ELECTED_S)
        receipt = await producer.send(PLACE.topic, None, b"to whoever leads now")
        await receipt
        led = client.leader_of(PLACE)
    assert led is not None
    assert led.leader != leader.node_id, "the one that was cut off took it"


async def leader_of(cluster: SimulatedCluster, partition: TopicPartition) -> NodeProcess:
    async with cluster.client("client") as client:
        await client.topic(partition.topic)
        led = client.leader_of(partition)
    return next(process for process in cluster.nodes if led is not None and process.node_id == led.leader)
