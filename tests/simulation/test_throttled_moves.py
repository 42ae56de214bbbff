"""Replicas that move at a limited rate do so at that rate, and hold nobody else up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.cli.cluster.reassignment import Pace, move_in_waves
from headrace.client.admin.admin import Admin, ConfigChange, ConfigSource, Resource, ResourceType
from headrace.client.admin.cluster import ClusterAdmin, PlannedMove
from headrace.client.producing.producer import BatchingProducer
from headrace.model.names import TopicPartition
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.client.connections.cluster import Cluster
    from headrace.simulation.cluster import SimulatedCluster

RATE = 200_000
PARTITIONS = 4
RECORD_BYTES = 20_000
RECORDS = 100
IDEAL_S = RECORDS * RECORD_BYTES / RATE
EVERY_NODE = Resource(ResourceType.BROKER, "")
MOVED = Resource(ResourceType.TOPIC, "moved")
LIMIT_S = 200.0


async def settle(admin: Admin, resource: Resource, **settings: str) -> None:
    changes = [(name.replace("_", "."), ConfigChange.SET, value) for name, value in settings.items()]
    await admin.alter_configs(resource, changes)


async def filled(client: Cluster, replicas: int = 1) -> list[TopicPartition]:
    admin = Admin(client)
    await admin.create_topic("moved", partitions=PARTITIONS, replication_factor=replicas)
    async with BatchingProducer(client) as producer:
        for number in range(RECORDS):
            await producer.send("moved", None, bytes(RECORD_BYTES), partition=number % PARTITIONS)
            await producer.flush()  # a batch each
    return [TopicPartition("moved", index) for index in range(PARTITIONS)]


async def move(client: Cluster, targets: dict[TopicPartition, tuple[int, ...]]) -> float:
    admin = ClusterAdmin(client)
    began_s = asyncio.get_running_loop().time()
    assert not await admin.reassign(targets)
    while await admin.list_reassignments():
        await asyncio.sleep(0.05)
    return asyncio.get_running_loop().time() - began_s


def play(work: Callable[[SimulatedCluster, Cluster], Awaitable[float]], seed: int) -> float:
    async def in_universe(universe: Universe) -> float:
        cluster = await ready_cluster(universe)
        return await cluster.run_on("client", work(cluster, cluster.client("client")))  # type: ignore[arg-type]

    return run(in_universe, seed=seed, limit_s=LIMIT_S)


BOTH = ("leader", "follower")


async def throttle(client: Cluster, rate: int, sides: tuple[str, ...] = BOTH) -> None:
    admin = Admin(client)
    await settle(admin, EVERY_NODE, **{f"{side}_replication_throttled_rate": str(rate) for side in sides})
    await settle(admin, MOVED, **{f"{side}_replication_throttled_replicas": "*" for side in sides})


@pytest.mark.parametrize("sides", [("leader",), ("follower",), BOTH], ids="+".join)
def test_a_move_runs_at_its_rate(sides: tuple[str, ...]) -> None:
    """All that one node sends, or takes in: everything leads on one, and moves to one."""

    async def work(cluster: SimulatedCluster, client: Cluster) -> float:
        names = await filled(client)
        await move(client, dict.fromkeys(names, (1,)))
        await throttle(client, RATE, sides)
        return await move(client, dict.fromkeys(names, (2,)))

    assert play(work, seed=1) == pytest.approx(IDEAL_S, rel=0.2)


def test_without_a_rate_a_move_takes_no_time_at_all() -> None:
    """So that the other tests measure the throttle, and not the disks."""

    async def work(cluster: SimulatedCluster, client: Cluster) -> float:
        names = await filled(client)
        await move(client, dict.fromkeys(names, (1,)))
        return await move(client, dict.fromkeys(names, (2,)))

    assert play(work, seed=1) < IDEAL_S / 5


def test_whoever_is_in_sync_is_not_held_up() -> None:
    """A move that may not go on at all shares leaders and followers with topics that are written to."""

    async def work(cluster: SimulatedCluster, client: Cluster) -> float:
        await Admin(client).create_topic("beside", partitions=3, replication_factor=3)
        names = await filled(client, replicas=2)
        await move(client, dict.fromkeys(names, (1, 3)))
        await throttle(client, 0)
        mover = asyncio.ensure_future(move(client, dict.fromkeys(names, (1, 2))))
        slowest_s = 0.0
        async with BatchingProducer(client) as producer:
            for number in range(100):
                began_s = asyncio.get_running_loop().time()
                await producer.send("beside", None, bytes(RECORD_BYTES), partition=number % 3)
                await producer.send("moved", None, bytes(RECORD_BYTES), partition=number % PARTITIONS)
                await producer.flush()
                slowest_s = max(slowest_s, asyncio.get_running_loop().time() - began_s)
                await asyncio.sleep(0.2)
        assert not mover.done()  # 20 s, twice as long as a replica may lag
        moved = await Admin(client).describe_topic("moved")
        assert [sorted(part.isr) for part in moved.partitions] == [[1, 3]] * PARTITIONS
        await throttle(client, 100 * RATE)
        await mover
        return slowest_s

    assert play(work, seed=3) < 1.0


def test_the_command_moves_at_its_rate_and_leaves_no_settings_behind() -> None:
    async def work(cluster: SimulatedCluster, client: Cluster) -> float:
        names = await filled(client)
        await move(client, dict.fromkeys(names, (1,)))
        admin = Admin(client)
        await settle(admin, MOVED, leader_replication_throttled_replicas="3:9")
        await settle(admin, EVERY_NODE, follower_replication_throttled_rate="987654321")
        began_s = asyncio.get_running_loop().time()
        moves = [PlannedMove(name, (1,), (2,)) for name in names]
        await move_in_waves(client, moves, Pace(at_once=2, bytes_per_s=RATE))
        lasted_s = asyncio.get_running_loop().time() - began_s
        left = [it for it in await admin.describe_configs(MOVED) if it.source is ConfigSource.TOPIC]
        assert [(it.name, it.value) for it in left] == [("leader.replication.throttled.replicas", "3:9")]
        rates = [(it.name, it.value) for it in await admin.describe_configs(EVERY_NODE)]
        assert rates == [("follower.replication.throttled.rate", "987654321")]
        return lasted_s

    assert play(work, seed=4) == pytest.approx(IDEAL_S, rel=0.2)
