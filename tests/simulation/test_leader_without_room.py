"""A leader whose disk is full lets another node lead, and is in sync again when it has room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin import Admin
from headrace.client.producer import BatchingProducer
from headrace.simulation.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.metadata.image import Partition
    from headrace.simulation.cluster import SimulatedCluster

LIMIT_S = 120.0
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
