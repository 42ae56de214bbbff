"""What probes and dashboards hear of a node while others of its cluster go down."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.servers.console.server import ConsoleServer
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.names import NodeId
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 120.0
LOOK_S = 0.05


def ask(process: NodeProcess, path: str) -> tuple[int, bytes]:
    assert process.node is not None
    node = process.node
    console = ConsoleServer(node.world, node.health)
    console.show(node)
    status, _, body = console.answer("GET", path)
    return status, body


def readiness(process: NodeProcess) -> tuple[int, dict[str, Any]]:
    status, body = ask(process, "/readyz")
    return status, json.loads(body)


def metric(process: NodeProcess, name: str) -> int:
    _, body = ask(process, "/metrics")
    (line,) = (line for line in body.decode().splitlines() if line.startswith(f"kafka_{name} "))
    return int(float(line.split()[1]))


async def until_status(process: NodeProcess, status: int) -> None:
    while readiness(process)[0] != status:
        await asyncio.sleep(LOOK_S)


def test_a_node_that_lost_the_majority_is_not_ready_until_it_is_back() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        left, *others = cluster.nodes
        assert readiness(left) == (200, {"status": "ready", "offline_partitions": {}})
        for other in others:
            other.host.crash()
        await until_status(left, 503)
        told = readiness(left)[1]
        assert told["status"] == "not ready"
        assert "the node has no lease" in told["reason"]
        others[0].launch()
        await until_status(left, 200)

    run(play, seed=1, limit_s=LIMIT_S)


def test_each_node_reports_its_own_partitions_and_one_is_the_controller() -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        controller, (other, third) = controller_and_others(cluster)
        one, two, three = controller.node_id, other.node_id, third.node_id
        await controller.host.start(create(controller, (one, two), (two, three), (two,)), "controller")
        everybody = (controller, other, third)
        await until_told(everybody, "server_replicamanager_partitioncount", (1, 3, 1))
        assert told(everybody, "server_replicamanager_leadercount") == (1, 2, 0)
        assert told(everybody, "controller_kafkacontroller_activecontrollercount") == (1, 0, 0)
        assert told(everybody, "controller_kafkacontroller_offlinepartitionscount") == (0, 0, 0)
        other.host.crash()
        left = (controller, third)
        await until_told(left, "controller_kafkacontroller_offlinepartitionscount", (1, 1))
        await until_told(left, "server_replicamanager_leadercount", (1, 1))
        assert told(left, "server_replicamanager_partitioncount") == (1, 1)
        assert told(left, "server_replicamanager_underreplicatedpartitions") == (1, 1)
        assert told(left, "server_replicamanager_underminisrpartitioncount") == (1, 1)

    run(play, seed=1, limit_s=LIMIT_S)


async def create(controller: NodeProcess, *replicas: tuple[NodeId, ...]) -> None:
    """Topics of one partition each."""
    node = controller.node
    assert node is not None
    topics = [
        NewTopic(f"topic-{number}", assignments=(ManualAssignment(0, nodes),)) for number, nodes in enumerate(replicas)
    ]
    await node.quorum.submit(lambda image: create_topics(image, topics, node.view.configs, node.commands.new_topic_id))


def told(processes: Sequence[NodeProcess], name: str) -> tuple[int, ...]:
    return tuple(metric(process, name) for process in processes)


async def until_told(processes: Sequence[NodeProcess], name: str, expected: tuple[int, ...]) -> None:
    while told(processes, name) != expected:
        await asyncio.sleep(LOOK_S)
