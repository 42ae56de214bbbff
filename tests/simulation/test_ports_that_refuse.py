"""A live node whose port refuses, as behind a firewall: it may lead for as long as its lease lasts, and nobody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.errors import NobodyListens
from headrace.metadata.liveness import GRACE, SESSION_MS, lease_ms
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 120.0
PARTITIONS = 6
STEP_S = 0.002
SEVERAL = 5
SUSPECTED_S = lease_ms(SESSION_MS) * GRACE / 1000
ELECTED_WITHIN_S = 0.6  # a look of the controller, a decision, and who hears of it


def test_nobody_else_leads_while_the_lease_of_a_node_behind_a_closed_port_is_valid() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", create_topic(cluster))
        controller, others = controller_and_others(cluster)
        victim = others[0]
        led = [index for index in range(PARTITIONS) if leads(victim, index)]
        assert led
        for other in cluster.nodes:
            if other is not victim:
                close_port(cluster, other, victim)
                close_port(cluster, victim, other)
        began_s = asyncio.get_running_loop().time()
        while not any(leads(process, led[0]) for process in cluster.nodes if process is not victim):
            await asyncio.sleep(STEP_S)
            check_one_leads_each(cluster)
        assert asyncio.get_running_loop().time() - began_s < SUSPECTED_S + ELECTED_WITHIN_S
        assert victim.host.is_up
        assert controller.node is not None
        assert controller.node.is_controller

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_node_that_is_heard_stays_though_its_port_refuses() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", create_topic(cluster))
        controller, others = controller_and_others(cluster)
        victim = others[0]
        led = [index for index in range(PARTITIONS) if leads(victim, index)]
        assert led
        cluster.universe.fabric.reject(controller.host.name, victim.host.name)  # connections stay: its heartbeats come
        for _ in range(SEVERAL):
            await controller.host.start(find_port_closed(controller, victim), "look")
            await asyncio.sleep(SUSPECTED_S)
            assert all(leads(victim, index) for index in led)

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_process_that_has_ended_is_missed_sooner_than_a_silent_one() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", create_topic(cluster))
        _, others = controller_and_others(cluster)
        victim = others[0]
        (index, *_) = [index for index in range(PARTITIONS) if leads(victim, index)]
        victim.host.crash()
        began_s = asyncio.get_running_loop().time()
        while not any(leads(process, index) for process in cluster.nodes if process is not victim):
            await asyncio.sleep(STEP_S)
        assert asyncio.get_running_loop().time() - began_s < SUSPECTED_S + ELECTED_WITHIN_S

    run(play, seed=1, limit_s=LIMIT_S)


async def create_topic(cluster: SimulatedCluster) -> None:
    await Admin(cluster.client("client")).create_topic("t", partitions=PARTITIONS, replication_factor=3)


def close_port(cluster: SimulatedCluster, caller: NodeProcess, called: NodeProcess) -> None:
    cluster.universe.fabric.reject(caller.host.name, called.host.name)
    cluster.universe.fabric.cut(caller.host.name, called.host.name)


async def find_port_closed(process: NodeProcess, target: NodeProcess) -> None:
    assert process.node is not None
    with pytest.raises(NobodyListens):
        await process.node.peers.connection(target.node_id, "a new lane")


def check_one_leads_each(cluster: SimulatedCluster) -> None:
    for index in range(PARTITIONS):
        leaders = [process.node_id for process in cluster.nodes if leads(process, index)]
        assert len(leaders) <= 1, f"partition {index} is led by nodes {leaders}"


def leads(process: NodeProcess, index: int) -> bool:
    """Whether it would take and acknowledge a write in this moment."""
    node = process.node
    if node is None or not process.host.is_up:
        return False
    node.registration.look_at_lease(node.world.clock.monotonic_s())
    return node.topics.partition("t", index).replica.is_leader
