"""What a node meets while it stops does not keep it from a clean end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import NodeId
from headrace.storage.files import checkpoints
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from pathlib import Path

LEADER = NodeId(2)


async def test_bad_bytes_from_a_leader_after_the_chores_have_ended(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        node = server.node
        await server.create_topic("orders")
        partition = node.topics.partition("orders", 0)
        await node.tasks.close()  # followers end after this
        for _ in range(2):  # the leader is told the second time
            node.damage.bad_fetch(partition, LEADER)
        assert not node.failed.done()
    assert (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
