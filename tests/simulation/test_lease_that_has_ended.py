"""What a leader does whose lease is over: it takes nothing more, promises nothing more, and sends clients elsewhere.

A process that stood still is told of what waits at its sockets before it is told of the time, as asyncio does it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_NODE, TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.client.connections.connection import Connection
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 300.0
FENCED_S = 6.0  # by then others lead what a silent node led
SOON_S = 5.0
PLACE = TopicPartition("t", 0)


def played(play: Callable[[SimulatedCluster, NodeProcess, Connection], Awaitable[None]]) -> None:
    """With a topic, its leader, and a connection to that."""

    async def begin(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", go_on(cluster))

    async def go_on(cluster: SimulatedCluster) -> None:
        await Admin(cluster.client("client")).create_topic(PLACE.topic, partitions=1, replication_factor=3)
        async with cluster.client("client") as client:
            await client.topic(PLACE.topic)
            led = client.leader_of(PLACE)
            assert led is not None
            leader = next(process for process in cluster.nodes if process.node_id == led.leader)
            await play(cluster, leader, await client.node_connection(leader.node_id))

    run(begin, seed=1, limit_s=LIMIT_S)


async def produce(connection: Connection, acks: int) -> ErrorCode:
    batch = bytes(encode_batch([(0, None, b"value", ())]))
    data = TopicProduceData(PLACE.topic, partition_data=[PartitionProduceData(PLACE.partition, batch)])
    answer = await connection.request(ProduceRequest(None, acks, 60_000, [data]), ProduceResponse, version=8)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_what_waited_at_the_sockets_of_a_stopped_leader_is_refused() -> None:
    async def play(_: SimulatedCluster, leader: NodeProcess, connection: Connection) -> None:
        assert await produce(connection, 1) is ErrorCode.NONE
        leader.host.pause()
        waiting = asyncio.create_task(produce(connection, 1))
        await asyncio.sleep(FENCED_S)
        leader.host.resume()
        assert await waiting is ErrorCode.NOT_LEADER_OR_FOLLOWER

    played(play)


def test_a_leader_that_is_cut_off_lets_nobody_wait_for_a_commit() -> None:
    async def play(cluster: SimulatedCluster, leader: NodeProcess, connection: Connection) -> None:
        cut_off(cluster, leader)
        began_s = asyncio.get_running_loop().time()
        assert await produce(connection, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert asyncio.get_running_loop().time() - began_s < SOON_S

    played(play)


def test_a_leader_without_a_lease_does_not_name_itself() -> None:
    async def play(cluster: SimulatedCluster, leader: NodeProcess, connection: Connection) -> None:
        assert await named_leader(connection) == leader.node_id
        cut_off(cluster, leader)
        await asyncio.sleep(FENCED_S)
        assert await named_leader(connection) == NO_NODE
        cluster.universe.fabric.heal()
        async with asyncio.timeout(LIMIT_S):
            while await named_leader(connection) == NO_NODE:
                await asyncio.sleep(0.1)

    played(play)


def cut_off(cluster: SimulatedCluster, leader: NodeProcess) -> None:
    others = [process.host.name for process in cluster.nodes if process is not leader]
    cluster.universe.fabric.partition([leader.host.name], others)


async def named_leader(connection: Connection) -> int:
    wanted = MetadataRequest([MetadataRequestTopic(name=PLACE.topic)])
    (topic,) = (await connection.request(wanted, MetadataResponse, version=9)).topics
    told = topic.partitions[0]
    return NO_NODE if told.error_code else told.leader_id  # beside an error it is only said where to look
