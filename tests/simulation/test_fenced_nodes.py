"""Who is fenced may not serve, whatever was on its way when that was decided."""

from __future__ import annotations

import asyncio

from headrace.simulation.cluster import NodeProcess, SimulatedCluster
from headrace.simulation.universe import Universe, run

LIMIT_S = 60.0


def test_a_heartbeat_that_meets_a_fence_on_its_way_is_refused() -> None:
    async def play(universe: Universe) -> bool:
        cluster = SimulatedCluster(universe, node_count=3)
        for process in cluster.nodes:
            process.launch()
        await cluster.wait_ready()
        controller = next(it for it in cluster.nodes if it.node is not None and it.node.quorum.is_leader)
        late = next(it for it in cluster.nodes if it is not controller)
        return bool(await controller.host.start(is_served_while_fenced(controller, late), "controller"))

    assert not run(play, seed=1, limit_s=LIMIT_S)


async def is_served_while_fenced(controller: NodeProcess, late: NodeProcess) -> bool:
    assert controller.node is not None
    assert late.node is not None
    assembly, epoch = controller.node.assembly, late.node.broker_epoch
    fencing = asyncio.create_task(assembly.controller._fence(late.node_id))
    await asyncio.sleep(0)  # it is decided now, and not agreed on yet
    is_served = await assembly.controller.heartbeat(
        late.node_id, epoch, assembly.quorum.applied_end, wants_fence=False, wants_stop=False
    )
    assert assembly.quorum.image.nodes[late.node_id].is_fenced, "the heartbeat was answered too soon to meet the fence"
    await fencing
    return is_served
