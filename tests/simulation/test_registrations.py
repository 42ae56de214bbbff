"""A node makes itself known: whatever the cluster says to that, it does not wait for ever in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.simulation.cluster import NodeProcess, SimulatedCluster
from headrace.simulation.universe import Universe, run

if TYPE_CHECKING:
    from headrace.broker.node import Node

LIMIT_S = 120.0


async def ready_follower(universe: Universe) -> tuple[NodeProcess, Node]:
    """A node of three that is not the controller."""
    cluster = SimulatedCluster(universe, node_count=3)
    for process in cluster.nodes:
        process.launch()
    await cluster.wait_ready()
    process = next(it for it in cluster.nodes if it.node is not None and not it.node.is_controller)
    assert process.node is not None
    return process, process.node


def test_an_image_that_is_beyond_a_registration_has_it() -> None:
    """Another life of the node has registered as well, and both came at once."""

    async def play(universe: Universe) -> None:
        process, node = await ready_follower(universe)
        node.assembly.enrolment.broker_epoch -= 1
        await process.host.start(node.assembly._registration_applied(), "registration")

    run(play, seed=1, limit_s=LIMIT_S)
