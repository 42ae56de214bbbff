"""A log that nobody needs any more once it is made does not stay."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.partition_commands import Reassignment, reassign
from headrace.metadata.commands.topic_commands import NewTopic, TopicReference, create_topics, delete_topics
from headrace.model.names import LogId
from headrace.simulation.cluster import NodeProcess, SimulatedCluster
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.files.layout import directory_of
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.names import NodeId

LIMIT_S = 60.0
SLOWNESS = 100.0  # to make a log takes a while, in which the next decision is there


def test_a_topic_that_is_deleted_while_its_log_is_made_leaves_nothing_behind() -> None:
    async def play(universe: Universe) -> list[bool]:
        cluster = SimulatedCluster(universe)
        (process,) = cluster.nodes
        process.launch()
        await cluster.wait_ready()
        process.host.threads.slowness["general"] = SLOWNESS
        return list(await process.host.start(create_and_delete(process), "client"))

    assert run(play, seed=1, limit_s=LIMIT_S) == [False, False]


async def create_and_delete(process: NodeProcess) -> list[bool]:
    """Whether its log is still there afterwards: open, or on the disk."""
    node = process.node
    assert node is not None
    topic = NewTopic("short-lived", assignments=(ManualAssignment(0, (node.node_id,)),))
    await node.quorum.submit(lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id))
    known = node.image.topic_named(topic.name)
    assert known is not None
    log_id = LogId(known.topic_id, 0)
    await asyncio.sleep(0.001)  # its log is being made
    await node.commands.submit(lambda image: delete_topics(image, [TopicReference(topic.name)], node.view.configs))
    return [node.store.holds_unused(log_id), process.host.world.disk.exists(directory_of(log_id))]


def test_what_has_moved_away_while_a_node_was_down_goes_when_it_is_back() -> None:
    async def play(universe: Universe) -> tuple[bool, bool]:
        cluster = await ready_cluster(universe)
        controller, (away, other) = controller_and_others(cluster)
        log_id = await controller.host.start(create(controller, away), "controller")
        await until(lambda: away.host.world.disk.exists(directory_of(log_id)))
        away.host.crash()
        await controller.host.start(move(controller, log_id, controller.node_id, other.node_id), "controller")
        was_there = bool(away.host.restart().disk.exists(directory_of(log_id)))
        away.host.crash()
        away.launch()
        await cluster.wait_ready()
        return was_there, away.host.world.disk.exists(directory_of(log_id))

    assert run(play, seed=1, limit_s=LIMIT_S) == (True, False)


def test_what_moves_away_and_back_is_served_whatever_was_wrong_with_it() -> None:
    async def play(universe: Universe) -> tuple[bool, bool]:
        controller, (origin, other) = controller_and_others(await ready_cluster(universe))
        log_id = await controller.host.start(create(controller, origin), "controller")
        node = origin.node
        assert node is not None
        await until(lambda: node.topics.by_log_id(log_id) is not None)
        node.coordinators._unreadable(node.topics.partition("moving", 0), "no record of a coordinator")
        was_offline = node.topics.is_offline(*log_id)
        for second in (other.node_id, origin.node_id):
            await controller.host.start(move(controller, log_id, controller.node_id, second), "controller")
        return was_offline, node.topics.is_offline(*log_id)

    assert run(play, seed=1, limit_s=LIMIT_S) == (True, False)


async def create(controller: NodeProcess, other: NodeProcess) -> LogId:
    node = controller.node
    assert node is not None
    topic = NewTopic("moving", assignments=(ManualAssignment(0, (controller.node_id, other.node_id)),))
    await node.quorum.submit(lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id))
    known = node.image.topic_named(topic.name)
    assert known is not None
    return LogId(known.topic_id, 0)


async def move(controller: NodeProcess, log_id: LogId, *replicas: NodeId) -> None:
    node = controller.node
    assert node is not None
    await node.quorum.submit(lambda image: reassign(image, [Reassignment(log_id, replicas)]))

    def is_done() -> bool:
        state = node.image.partition(*log_id)
        return state is not None and not state.is_moving

    await until(is_done)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.05)
