"""Which nodes Metadata names: those that are here, and for a moment one that was lost, so that clients let go of it
only after they have heard who leads in its place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.membership.reachability import LISTED_S
from headrace.client.admin.admin import Admin
from headrace.client.connections.connection import Connection
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 120.0
TOPIC = "t"
STEP_S = 0.02


def test_a_lost_node_is_named_until_clients_know_who_leads_in_its_place() -> None:
    async def play(universe: Universe) -> None:
        cluster, lost, other = await cluster_with_topic(universe)
        universe.fabric.partition([lost.host.name], [it.host.name for it in cluster.nodes if it is not lost])
        told = await told_by(cluster, other)
        while leads_any(told, lost):
            await asyncio.sleep(STEP_S)
            told = await told_by(cluster, other)
        assert lost.node_id in node_ids(told), (
            "whoever hears of the next leaders does not hear of the last one any more"
        )
        await asyncio.sleep(LISTED_S)
        assert lost.node_id not in node_ids(await told_by(cluster, other))
        universe.fabric.heal()
        while lost.node_id not in node_ids(told):
            await asyncio.sleep(STEP_S)
            told = await told_by(cluster, other)

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_node_that_stops_in_order_is_not_named_any_more() -> None:
    async def play(universe: Universe) -> None:
        cluster, leaving, other = await cluster_with_topic(universe)
        leaving.ask_to_stop()
        while leaving.host.is_up:
            await asyncio.sleep(STEP_S)
        told = await told_by(cluster, other)
        assert not leads_any(told, leaving)
        assert leaving.node_id not in node_ids(told)

    run(play, seed=1, limit_s=LIMIT_S)


async def cluster_with_topic(universe: Universe) -> tuple[SimulatedCluster, NodeProcess, NodeProcess]:
    """With one that leads some of the topic, and another."""
    cluster = await ready_cluster(universe)
    await cluster.run_on(
        "client", Admin(cluster.client("client")).create_topic(TOPIC, partitions=6, replication_factor=3)
    )
    other, (leader, _) = controller_and_others(cluster)
    while not leads_any(await told_by(cluster, other), leader):
        await asyncio.sleep(STEP_S)
    return cluster, leader, other


async def told_by(cluster: SimulatedCluster, process: NodeProcess) -> MetadataResponse:
    connection = await Connection.open(cluster.client_host("client").world.network, process.address)
    answer = await connection.request(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), MetadataResponse)
    connection.close()
    return answer


def node_ids(told: MetadataResponse) -> list[int]:
    return [broker.node_id for broker in told.brokers]


def leads_any(told: MetadataResponse, process: NodeProcess) -> bool:
    return any(it.leader_id in {process.node_id, -1} for it in told.topics[0].partitions)
