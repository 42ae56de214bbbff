"""Simulated clusters at the moment when every node serves, for tests that script what happens next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.model.errors import Refusal
from headrace.simulation.cluster import NodeProcess, SimulatedCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.model.names import NodeId
    from headrace.simulation.environment.universe import Universe


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


async def create_assigned(controller: NodeProcess, name: str, replicas: Sequence[tuple[NodeId, ...]]) -> None:
    """A topic whose partitions are on just these nodes. To be run as part of the controller's life."""
    node = controller.node
    assert node is not None
    topic = NewTopic(name, assignments=tuple(ManualAssignment(index, nodes) for index, nodes in enumerate(replicas)))
    (outcome,) = await node.quorum.submit(
        lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id)
    )
    assert not isinstance(outcome.result, Refusal), outcome
