"""What retention allows to go is deleted as soon as something finds no room, and not minutes later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import SimulatedCluster

LIMIT_S = 250.0  # less than the five minutes after which retention would look anyway
SOON_S = 10.0
RECORD_BYTES = 500_000
SETTINGS = {"segment.bytes": str(4 * RECORD_BYTES), "retention.bytes": str(6 * RECORD_BYTES)}


def test_a_full_disk_has_room_again_at_once_if_something_may_go() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe, node_count=1)
        await cluster.run_on("client", fill(cluster))

    run(play, seed=1, limit_s=LIMIT_S)


async def fill(cluster: SimulatedCluster) -> None:
    client = cluster.client("client")
    await Admin(client).create_topic("t", partitions=1, replication_factor=1, configs=SETTINGS)
    device = cluster.nodes[0].host.device
    async with BatchingProducer(client) as producer:
        for _ in range(20):
            await producer.send("t", None, bytes(RECORD_BYTES))
            await producer.flush()
        device.capacity_bytes = device.used_bytes + RECORD_BYTES // 2
        began_s = asyncio.get_running_loop().time()
        await producer.send("t", None, bytes(RECORD_BYTES))
        await producer.flush()
        assert asyncio.get_running_loop().time() - began_s < SOON_S
