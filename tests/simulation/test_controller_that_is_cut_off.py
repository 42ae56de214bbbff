"""A controller that the others have lost, and that leads partitions itself: somebody else decides and leads soon, and
never while its lease is valid, though it has granted that to itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.metadata.liveness import GRACE, SESSION_MS, lease_ms
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 120.0
PARTITIONS = 6
STEP_S = 0.002
LEASE_S = lease_ms(SESSION_MS) * GRACE / 1000
ELECTED_WITHIN_S = 0.6  # a look of the controller, a decision, and who hears of it


@pytest.mark.parametrize("seed", range(1, 6))
def test_its_partitions_are_led_by_others_when_the_lease_that_it_granted_itself_is_over(seed: int) -> None:
    async def play(universe: Universe) -> None:
        cluster, victim, others = await cluster_with_topic(universe)
        universe.fabric.partition([victim.host.name], [it.host.name for it in others])
        await elected(cluster, others)
        elected_s = now_s()
        await led_by_one_of(cluster, others)
        assert now_s() - elected_s < LEASE_S + ELECTED_WITHIN_S

    run(play, seed=seed, limit_s=LIMIT_S)


@pytest.mark.parametrize("seed", range(1, 6))
def test_nobody_else_leads_before_though_the_next_controller_is_elected_at_once(seed: int) -> None:
    """A port that refuses is reason enough to elect: then the lease still has most of its time to go."""

    async def play(universe: Universe) -> None:
        cluster, victim, others = await cluster_with_topic(universe)
        for other in others:
            for caller, called in ((victim, other), (other, victim)):
                universe.fabric.reject(caller.host.name, called.host.name)
                universe.fabric.cut(caller.host.name, called.host.name)
        await elected(cluster, others)
        assert leads_any(victim), "its lease is over already, so that this test shows nothing"
        await led_by_one_of(cluster, others)

    run(play, seed=seed, limit_s=LIMIT_S)


async def cluster_with_topic(universe: Universe) -> tuple[SimulatedCluster, NodeProcess, list[NodeProcess]]:
    cluster = await ready_cluster(universe)
    await cluster.run_on(
        "client", Admin(cluster.client("client")).create_topic("t", partitions=PARTITIONS, replication_factor=3)
    )
    victim, others = controller_and_others(cluster)
    while not all(any(leads(process, index) for process in cluster.nodes) for index in range(PARTITIONS)):
        await asyncio.sleep(STEP_S)
    assert leads_any(victim)
    return cluster, victim, others


async def elected(cluster: SimulatedCluster, others: list[NodeProcess]) -> None:
    while not any(it.node is not None and it.node.quorum.is_in_charge for it in others):
        await asyncio.sleep(STEP_S)
        check_one_leads_each(cluster)


async def led_by_one_of(cluster: SimulatedCluster, others: list[NodeProcess]) -> None:
    while not all(any(leads(process, index) for process in others) for index in range(PARTITIONS)):
        await asyncio.sleep(STEP_S)
        check_one_leads_each(cluster)


def check_one_leads_each(cluster: SimulatedCluster) -> None:
    for index in range(PARTITIONS):
        leaders = [process.node_id for process in cluster.nodes if leads(process, index)]
        assert len(leaders) <= 1, f"partition {index} is led by nodes {leaders}"


def leads_any(process: NodeProcess) -> bool:
    return any(leads(process, index) for index in range(PARTITIONS))


def leads(process: NodeProcess, index: int) -> bool:
    """Whether it would take and acknowledge a write in this moment."""
    node = process.node
    if node is None or not process.host.is_up:
        return False
    node.registration.look_at_lease(node.world.clock.monotonic_s())
    partition = node.topics.find("t", index)
    return partition is not None and partition.replica.is_leader


def now_s() -> float:
    return asyncio.get_running_loop().time()
