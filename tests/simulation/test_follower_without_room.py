"""A follower whose disk is full says so once, does not let its leader send the same all the time, and goes on later."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    import pytest

    from headrace.simulation.cluster import SimulatedCluster

FULL_S = 20.0  # longer than a follower may lag: it leaves the in-sync set meanwhile
LEAVES_S = 3.0  # by itself, long before its leader would have lost patience
LIMIT_S = 120.0
RECORD_BYTES = 100_000
SENT_AGAIN_MAX = 2 * int(FULL_S)  # once a second, and it waits longer than that to be let in again


def test_a_full_disk_is_no_reason_to_fetch_and_talk_all_the_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def play(universe: Universe) -> float:
        cluster = await ready_cluster(universe)
        return await cluster.run_on("client", sent_while_full(cluster))

    records_sent = run(play, seed=1, limit_s=LIMIT_S)
    said = [record.getMessage() for record in caplog.records]
    assert sum("t-0 cannot follow now: the disk is full" in line for line in said) == 1
    assert "t-0 follows again" in said
    assert records_sent < SENT_AGAIN_MAX


async def sent_while_full(cluster: SimulatedCluster) -> float:
    """How often the leader has sent the record to a follower that has no room for it, and to the other one."""
    client = cluster.client("client")
    await Admin(client).create_topic("t", partitions=1, replication_factor=3)
    nodes = {it.node_id: it for it in cluster.nodes}
    node = cluster.nodes[0].node
    assert node is not None
    topic = node.image.topic_named("t")
    assert topic is not None

    def in_sync() -> tuple[int, ...]:
        partition = node.image.partition(topic.topic_id, 0)
        assert partition is not None
        return partition.isr

    leader, follower = nodes[in_sync()[0]], nodes[in_sync()[-1]]
    assert leader.node is not None
    device = follower.host.device
    device.capacity_bytes = device.used_bytes + RECORD_BYTES // 2
    sent_before = leader.node.counters.bytes_out
    async with BatchingProducer(client) as producer:
        began_s = asyncio.get_running_loop().time()
        await producer.send("t", None, bytes(RECORD_BYTES))
        await producer.flush()
        assert follower.node_id not in in_sync()  # it was not waited for any longer
        assert asyncio.get_running_loop().time() - began_s < LEAVES_S
        await asyncio.sleep(FULL_S)
    sent = leader.node.counters.bytes_out - sent_before
    device.capacity_bytes = None
    while len(in_sync()) < len(nodes):
        await asyncio.sleep(0.1)
    return sent / RECORD_BYTES
