"""A sector that cannot be read: that replica is given up and fetched anew, and no other partition notices."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.simulation.environment.universe import Universe, run
from headrace.simulation.faults.disk_faults import BAD_SECTOR
from headrace.simulation.scenario import run_scenario
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import Partition as PartitionState
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 120.0
MENDED_WITHIN_S = 30.0
SCRUBBED_WITHIN_S = 80.0  # a new log is looked at within a minute
PARTITIONS = 6
LOOK_S = 0.1
WRITERS = ("batches", "pipelines")
IN_TROUBLE = (BAD_SECTOR, "crash", "power cut", "clean restart", "cut connections")
SEEDS_LONG = int(os.environ.get("HEADRACE_SECTOR_SEEDS", "50"))
TROUBLE_S = 8.0


def test_one_bad_sector_of_a_leader_holds_up_no_follower() -> None:
    """It cannot send what a follower lacks. The follower reads other partitions from it on the same connection."""

    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", write(cluster, range(PARTITIONS), create=True))
        leader, led = busiest_leader(cluster)
        returning = next(it for it in cluster.nodes if it is not leader)
        returning.host.crash()
        while returning.node_id in state_of(cluster, led[0]).isr:
            await asyncio.sleep(LOOK_S)
        await cluster.run_on("client", write(cluster, led))
        assert leader.node is not None
        bad = leader.node.topics.partition("t", led[0]).log
        device = leader.host.device
        for position in range(bad.segments[0].size):
            device.spoil(bad.segments[0].log_path, position)
        returning.launch()
        await until_whole(cluster)
        assert not bad.segments[0].size or leader.node.topics.partition("t", led[0]).log is not bad
        assert leader.node.counters.replicas_given_up == 1
        assert leader.host.is_up

    run(play, seed=1, limit_s=LIMIT_S)


@pytest.mark.parametrize("is_leader", [True, False], ids=["of a leader", "of a follower"])
def test_a_start_that_cannot_read_a_log_fetches_it_again(is_leader: bool) -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", write(cluster, range(PARTITIONS), create=True))
        leader, led = busiest_leader(cluster)
        victim = leader if is_leader else next(it for it in cluster.nodes if it is not leader)
        assert victim.node is not None
        path = victim.node.topics.partition("t", led[0]).log.segments[0].log_path
        victim.host.crash()
        victim.host.device.spoil(path, 0)
        victim.launch()
        await cluster.wait_ready()
        await until_whole(cluster)
        assert victim.node is not None
        assert victim.node.counters.replicas_given_up == 1

    run(play, seed=1, limit_s=LIMIT_S)


def test_a_sector_that_nobody_reads_is_found_in_the_segment_that_is_written_to() -> None:
    """A follower's log, of one segment: the scrub alone ever looks there."""

    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", write(cluster, range(PARTITIONS), create=True))
        leader, led = busiest_leader(cluster)
        follower = next(it for it in cluster.nodes if it is not leader)
        assert follower.node is not None
        log = follower.node.topics.partition("t", led[0]).log
        while log.flushing.is_dirty:
            await asyncio.sleep(LOOK_S)
        follower.host.device.spoil(log.segments[0].log_path, 0)
        async with asyncio.timeout(SCRUBBED_WITHIN_S):
            while not follower.node.counters.replicas_given_up:
                await asyncio.sleep(LOOK_S)
        await until_whole(cluster)

    run(play, seed=1, limit_s=LIMIT_S)


def test_whoever_meets_a_bad_sector_loses_nothing() -> None:
    assert sum(check_seed(seed, (BAD_SECTOR,)) for seed in range(2))


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_bad_sectors_among_other_troubles_lose_nothing() -> None:
    assert sum(check_seed(seed, IN_TROUBLE) for seed in range(SEEDS_LONG)) > SEEDS_LONG // 2


def check_seed(seed: int, faults: tuple[str, ...]) -> int:
    report = run_scenario(seed, faults, WRITERS, node_count=3, trouble_s=TROUBLE_S)
    assert report.is_good, "\n".join(map(str, report.violations))
    return report.faults.get(BAD_SECTOR, 0)


async def write(cluster: SimulatedCluster, partitions: range | list[int], *, create: bool = False) -> None:
    client = cluster.client("client")
    if create:
        await Admin(client).create_topic("t", partitions=PARTITIONS, replication_factor=3)
    async with BatchingProducer(client) as producer:
        for index in partitions:
            await producer.send("t", None, bytes(1000), partition=index)
        await producer.flush()


def busiest_leader(cluster: SimulatedCluster) -> tuple[NodeProcess, list[int]]:
    """A node that leads several partitions, and which."""
    led: dict[int, list[int]] = {}
    for index in range(PARTITIONS):
        led.setdefault(state_of(cluster, index).leader, []).append(index)
    leader = max(led, key=lambda node_id: len(led[node_id]))
    assert len(led[leader]) > 1
    return next(it for it in cluster.nodes if it.node_id == leader), led[leader]


def state_of(cluster: SimulatedCluster, index: int) -> PartitionState:
    node = next(it.node for it in cluster.nodes if it.node is not None and it.host.is_up)
    topic = node.image.topic_named("t")
    assert topic is not None
    state = node.image.partition(topic.topic_id, index)
    assert state is not None
    return state


async def until_whole(cluster: SimulatedCluster) -> None:
    async with asyncio.timeout(MENDED_WITHIN_S):
        while not all(is_whole(cluster, index) for index in range(PARTITIONS)):
            await asyncio.sleep(LOOK_S)


def is_whole(cluster: SimulatedCluster, index: int) -> bool:
    nodes = [it.node for it in cluster.nodes if it.node is not None]
    is_mending = any(node.damage.damaged_count for node in nodes)
    return len(state_of(cluster, index).isr) == len(cluster.nodes) == len(nodes) and not is_mending
