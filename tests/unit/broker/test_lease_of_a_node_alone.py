"""A lease keeps two nodes from leading at once. A node that has nobody beside it needs none."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from headrace.metadata.liveness import SESSION_MS
from headrace.model.errors import ErrorCode
from tests.unit.servers.living_server import living_server, produce

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "events"


async def test_a_node_alone_goes_on_leading_after_it_was_held_up(tmp_path: Path) -> None:
    async with living_server(tmp_path) as server:
        await server.create_topic(TOPIC)
        client = await server.connect()
        time.sleep(SESSION_MS / 1000 + 0.2)
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert server.node.registration.is_leased
            assert server.node.health.why_not_serving is None
        answer = await client.ask(produce(TOPIC, acks=-1), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
