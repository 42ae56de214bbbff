"""The metadata log can stay as long as it is. A disk that has no room for its summary is no reason to end."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from headrace.broker.metadata import quorum
from headrace.broker.metadata.store import SNAPSHOT_FILE
from headrace.simulation.environment.device import Operation, os_error
from headrace.simulation.environment.universe import Universe, run
from tests.simulation.ready_clusters import controller_and_others, ready_cluster
from tests.simulation.test_snapshot_meets_snapshot import SNAPSHOT_EVERY, decide_much

if TYPE_CHECKING:
    import pytest

LIMIT_S = 600.0
ATTEMPTS_MAX = 2  # many more decisions are made within the time between two of them


def test_a_node_without_room_for_a_snapshot_goes_on_and_takes_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "SNAPSHOT_EVERY", SNAPSHOT_EVERY)

    async def play(universe: Universe) -> list[BaseException | None]:
        cluster = await ready_cluster(universe)
        controller, _ = controller_and_others(cluster)
        assert controller.node is not None
        raft_log = controller.node.quorum.raft.log
        before = raft_log.snapshot.end
        attempts = 0

        def no_room(operation: Operation, path: str) -> None:
            nonlocal attempts
            if operation is Operation.CREATE and path.startswith(SNAPSHOT_FILE):
                attempts += 1
                raise os_error(errno.ENOSPC, path)

        controller.host.device.watch(no_room)
        await controller.host.start(decide_much(controller), "controller")
        assert 1 <= attempts <= ATTEMPTS_MAX
        assert raft_log.snapshot.end == before
        controller.host.device.unwatch(no_room)
        while raft_log.snapshot.end == before:
            await asyncio.sleep(1)
        return [error for _, error in controller.exits]

    assert run(play, seed=1, limit_s=LIMIT_S) == []
