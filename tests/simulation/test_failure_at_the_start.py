"""A node that fails while it starts ends at once: what it waits for may never come to it."""

from __future__ import annotations

import asyncio

from headrace.model.errors import DiskFailure
from headrace.simulation.cluster import SimulatedCluster
from headrace.simulation.universe import Universe, run

LIMIT_S = 60.0
ALONE_S = 5.0  # long enough that it waits for a majority by then


def test_a_node_that_fails_while_it_waits_for_others_ends() -> None:
    failure = DiskFailure("the disk is gone")

    async def play(universe: Universe) -> list[BaseException | None]:
        lonely = SimulatedCluster(universe, node_count=3).nodes[0]
        lonely.launch()
        await asyncio.sleep(ALONE_S)
        assert lonely.present is not None
        assert not lonely.is_serving
        lonely.present.fail(failure)
        await lonely.host.is_down.wait()
        return [error for _, error in lonely.exits]

    assert run(play, seed=1, limit_s=LIMIT_S) == [failure]
