"""Who is to blame for a sync that took long: the disk, unless the process itself stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.broker.build import NodePlan, build
from headrace.simulation.environment.universe import run
from headrace.storage.store.flusher import LANE

if TYPE_CHECKING:
    from headrace.simulation.environment.universe import Universe


@pytest.mark.parametrize(("stopped_share", "is_blamed"), [(0.0, True), (1.0, False)])
def test_a_disk_is_not_blamed_for_a_process_that_stood_still(
    stopped_share: float, is_blamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        node = await build(host.world, NodePlan(stood_still_s=lambda last_s: last_s * stopped_share))
        await node.start()
        host.threads.slowness[LANE] = 1e6
        await node.store.flusher.sync_everything()
        host.threads.slowness.clear()
        await node.stop()

    run(main, seed=1)
    assert ("to sync what was written" in caplog.text) is is_blamed
