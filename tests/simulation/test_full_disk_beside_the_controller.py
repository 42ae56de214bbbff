"""A node without room passes a command on to the controller. What that has decided is not called refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.client.connections.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.simulation.environment.universe import Universe, run
from headrace.simulation.workloads.context import ONE_ATTEMPT
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

LIMIT_S = 60.0
LEFT_BYTES = 10  # less than any record of the metadata needs


def test_a_topic_that_was_created_is_not_refused_for_lack_of_room_elsewhere() -> None:
    async def play(universe: Universe) -> bool:
        cluster = await ready_cluster(universe)
        controller, (full, _) = controller_and_others(cluster)
        device = full.host.device
        device.capacity_bytes = device.used_bytes + LEFT_BYTES
        await cluster.run_on("client", create_through(full, cluster))
        assert controller.node is not None
        return controller.node.image.topic_named("t") is not None

    assert run(play, seed=1, limit_s=LIMIT_S), "nothing was decided, so nothing was tried here"


async def create_through(full: NodeProcess, cluster: SimulatedCluster) -> None:
    """A Refusal would say that it was not created."""
    world = cluster.client_host("client").world
    async with Cluster([full.address], world.network, world.clock, world.entropy, ONE_ATTEMPT) as client:
        try:
            await Admin(client).create_topic("t", partitions=1, replication_factor=3)
        except ClientError:
            return  # the node has ended over it: the outcome is not known
