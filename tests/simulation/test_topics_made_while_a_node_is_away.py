"""A topic is made although one of the nodes that shall keep it is away; that one has it when it is back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import SimulatedCluster

LIMIT_S = 120.0
PARTITIONS = 4


async def create_and_write(cluster: SimulatedCluster) -> None:
    await Admin(cluster.client("client")).create_topic("t", partitions=PARTITIONS, replication_factor=3)
    async with BatchingProducer(cluster.client("client")) as producer:
        for partition in range(PARTITIONS):
            await producer.send("t", None, b"value", partition=partition)
        await producer.flush()


def test_the_absent_node_gets_its_replicas_when_it_is_back() -> None:
    async def play(universe: Universe) -> list[int]:
        cluster = await ready_cluster(universe)
        absent, *others = cluster.nodes
        absent.host.crash()
        await asyncio.sleep(5.0)  # by then the others know
        await cluster.run_on("client", create_and_write(cluster))
        assert others[0].node is not None
        topic = others[0].node.image.topic_named("t")
        assert topic is not None
        assert all(absent.node_id not in partition.isr for partition in topic.in_order())
        absent.launch()
        await cluster.wait_ready()
        while not all(len(it.isr) == 3 for it in others[0].node.image.topics[topic.topic_id].in_order()):
            await asyncio.sleep(0.1)
        assert absent.node is not None
        return [absent.node.topics.partition("t", index).log.next_offset for index in range(PARTITIONS)]

    assert run(play, seed=1, limit_s=LIMIT_S) == [1] * PARTITIONS
