"""Every node tells of the producers that its own copies remember, whoever leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.producing.producer import BatchingProducer
from headrace.model.errors import ErrorCode
from headrace.simulation.environment.universe import Universe, run
from headrace.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster


async def last_sequences(client: Cluster, node_id: int) -> list[int]:
    request = DescribeProducersRequest([TopicRequest("events", [0])])
    connection = await client.node_connection(node_id)
    answer = await connection.request(request, DescribeProducersResponse)
    (found,) = answer.topics[0].partitions
    assert found.error_code == ErrorCode.NONE, found.error_message
    return [producer.last_sequence for producer in found.active_producers]


def test_a_follower_answers_from_its_own_copy() -> None:
    """`kafka-transactions find-hanging --broker-id` asks one node about all that it keeps."""

    async def work(client: Cluster) -> None:
        await Admin(client).create_topic("events", partitions=1, replication_factor=3)
        async with BatchingProducer(client) as producer:
            await producer.send("events", None, b"one")
            await producer.flush()
        for node_id in (1, 2, 3):
            while await last_sequences(client, node_id) != [0]:
                await asyncio.sleep(0.01)

    async def in_universe(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        await cluster.run_on("client", work(cluster.client("client")))

    run(in_universe, seed=1, limit_s=60.0)
