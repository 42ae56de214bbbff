"""A leader whose disk is full lets another node lead, and is in sync again when it has room."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.model.names import NO_NODE
from headrace.simulation.environment.device import Operation, os_error
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.metadata.image.cluster_image import Partition
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 120.0
LOOK_S = 0.1
OVERDUE_S = 15.0
RECORD_BYTES = 100_000


def test_another_node_leads_what_a_full_disk_cannot_take() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", write_to_a_full_leader(cluster))

    run(play, seed=1, limit_s=LIMIT_S)


async def write_to_a_full_leader(cluster: SimulatedCluster) -> None:
    client = cluster.client("client")
    await Admin(client).create_topic("t", partitions=1, replication_factor=3)

    def partition() -> Partition:
        node = cluster.nodes[0].node
        assert node is not None
        topic = node.image.topic_named("t")
        assert topic is not None
        found = node.image.partition(topic.topic_id, 0)
        assert found is not None
        return found

    full = partition().leader
    device = next(it for it in cluster.nodes if it.node_id == full).host.device
    device.capacity_bytes = device.used_bytes + RECORD_BYTES // 2
    async with BatchingProducer(client) as producer:
        for _ in range(3):
            await producer.send("t", None, bytes(RECORD_BYTES))
        await producer.flush()
    assert partition().leader != full
    assert full not in partition().isr
    device.capacity_bytes = None
    while full not in partition().isr:
        await asyncio.sleep(0.1)


def test_another_node_leads_a_new_partition_that_its_leader_has_no_room_to_make() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        _, (full, _) = controller_and_others(cluster)
        refuse_space(full, "topics/", Operation.CREATE)
        await cluster.run_on("client", create_and_write(cluster, partitions=3, replicas=3))
        partitions = partitions_in(cluster)
        assert [it.replicas[0] for it in partitions].count(full.node_id) == 1, "it was to lead one"
        assert full.node_id not in {it.leader for it in partitions}
        full.host.device.heal()
        while any(full.node_id not in it.isr for it in partitions_in(cluster)):
            await asyncio.sleep(LOOK_S)

    run(play, seed=1, limit_s=LIMIT_S)


def test_who_has_no_room_to_open_its_log_is_not_elected_and_the_next_that_is_back_is() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", create_and_write(cluster, partitions=1, replicas=2))
        nodes = {it.node_id: it for it in cluster.nodes}
        leader, full = (nodes[it] for it in partitions_in(cluster)[0].replicas)
        assert full.node is not None
        directory = full.node.topics.partition("t", 0).log.directory
        full.host.crash()
        while full.node_id not in partitions_in(cluster)[0].eligible:
            await asyncio.sleep(LOOK_S)
        leader.host.crash()
        refuse_space(full, directory, Operation.READ, Operation.CREATE, Operation.WRITE)
        full.launch()
        while not full.is_serving:
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(OVERDUE_S)
        assert partitions_in(cluster)[0].leader == NO_NODE
        leader.launch()
        while partitions_in(cluster)[0].leader != leader.node_id:
            await asyncio.sleep(LOOK_S)
        full.host.device.heal()
        while len(partitions_in(cluster)[0].isr) < 2:
            await asyncio.sleep(LOOK_S)

    run(play, seed=1, limit_s=LIMIT_S)


async def create_and_write(cluster: SimulatedCluster, *, partitions: int, replicas: int) -> None:
    """A record in each partition, acked by all that are in sync."""
    client = cluster.client("client")
    await Admin(client).create_topic("t", partitions=partitions, replication_factor=replicas)
    async with BatchingProducer(client) as producer:
        for index in range(partitions):
            await producer.send("t", None, b"value", partition=index)
        await producer.flush()


def refuse_space(process: NodeProcess, path: str, *operations: Operation) -> None:
    """To all that begins so, until the device is healed."""

    def watcher(operation: Operation, place: str) -> None:
        if operation in operations and place.startswith(path):
            raise os_error(errno.ENOSPC, place)

    process.host.device.watch(watcher)


def partitions_in(cluster: SimulatedCluster) -> list[Partition]:
    """As the first node knows them that serves."""
    node = next(it.node for it in cluster.nodes if it.is_serving and it.node is not None)
    topic = node.image.topic_named("t")
    assert topic is not None
    return list(topic.in_order())
