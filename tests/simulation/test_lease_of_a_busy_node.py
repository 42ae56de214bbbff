"""A node that was fenced and let in again may know who leads since then, and not have followed it yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.metadata.commands.assignments import ManualAssignment
from headrace.metadata.commands.topic_commands import NewTopic, create_topics
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.simulation.cluster import NodeProcess

LIMIT_S = 120.0
FENCED_AFTER_S = 4.0
LOOK_S = 0.01
SLOWNESS = 2_000.0  # to open a log takes seconds


def test_a_node_leads_again_only_where_it_has_followed_who_leads() -> None:
    async def play(universe: Universe) -> tuple[bool, bool]:
        cluster = await ready_cluster(universe)
        controller, (busy, _) = controller_and_others(cluster)
        await controller.host.start(create(controller, "old", busy), "controller")
        partition = await served(busy, "old")
        busy.host.threads.slowness["general"] = SLOWNESS
        await controller.host.start(create(controller, "new", busy), "controller")
        await asyncio.sleep(LOOK_S)
        busy.host.pause()
        await asyncio.sleep(FENCED_AFTER_S)
        busy.host.resume()
        return await leads_in_old_epoch(controller, busy, partition), partition.replica.is_leader

    assert run(play, seed=1, limit_s=LIMIT_S) == (False, False)


async def create(controller: NodeProcess, name: str, leader: NodeProcess) -> None:
    node = controller.node
    assert node is not None
    others = [it for it in node.image.nodes if it != leader.node_id]
    topic = NewTopic(name, assignments=(ManualAssignment(0, (leader.node_id, *others)),))
    await node.quorum.submit(lambda image: create_topics(image, [topic], node.view.configs, node.commands.new_topic_id))


async def served(process: NodeProcess, name: str) -> Partition:
    assert process.node is not None
    while True:
        partition = process.node.topics.find(name, 0)
        if partition is not None and partition.replica.is_leader:
            return partition
        await asyncio.sleep(LOOK_S)


async def leads_in_old_epoch(controller: NodeProcess, busy: NodeProcess, partition: Partition) -> bool:
    """Until it is let in again and has done what it was busy with."""
    assert controller.node is not None
    assert busy.node is not None
    old_epoch = partition.replica.leader_epoch
    while partition.replica.leader_epoch == old_epoch:
        node, state = controller.node.image.nodes[busy.node_id], controller.node.image.partition(*partition.log_id)
        assert state is not None
        if not node.is_fenced and state.leader_epoch > old_epoch and partition.replica.is_leader:
            return True
        await asyncio.sleep(LOOK_S)
    return False
