"""Simulated clusters at the moment when every node serves, for tests that script what happens next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.simulation.cluster import NodeProcess, SimulatedCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.simulation.universe import Universe


async def ready_cluster(
    universe: Universe, *, node_count: int = 3, configs: Mapping[str, str] | None = None
) -> SimulatedCluster:
    """Without a supervisor: who goes down stays down."""
    cluster = SimulatedCluster(universe, node_count=node_count, configs=configs)
    for process in cluster.nodes:
        process.launch()
    await cluster.wait_ready()
    return cluster


def controller_and_others(cluster: SimulatedCluster) -> tuple[NodeProcess, list[NodeProcess]]:
    controller = next(it for it in cluster.nodes if it.node is not None and it.node.is_controller)
    return controller, [it for it in cluster.nodes if it is not controller]
