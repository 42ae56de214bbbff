"""What an operator allows clients does not bind the nodes among themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import SimulatedCluster

LIMIT_S = 60.0
REQUEST_BYTES = 1024
PARTITIONS = 60  # a small request, and a decision that is larger than what clients may send


def test_a_decision_reaches_the_other_nodes_although_no_client_may_send_as_much() -> None:
    async def play(universe: Universe) -> list[int]:
        cluster = await ready_cluster(universe, configs={"socket.request.max.bytes": str(REQUEST_BYTES)})
        return list(await cluster.run_on("client", create_and_describe(cluster)))

    assert run(play, seed=1, limit_s=LIMIT_S) == [PARTITIONS, 1]


async def create_and_describe(cluster: SimulatedCluster) -> list[int]:
    """How many partitions a large topic has, and a small one that was created after it."""
    admin = Admin(cluster.client("client"))
    await admin.create_topic("large", partitions=PARTITIONS, replication_factor=1)
    await admin.create_topic("small", partitions=1, replication_factor=3)
    return [len((await admin.describe_topic(name)).partitions) for name in ("large", "small")]
