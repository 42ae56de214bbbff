"""A loop that stands still is seen from outside, and the log says where."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from headrace.runtime.stall_watch import StallWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

STILL_S = 0.1
PATIENCE_S = 30.0


def wait_here_until(told: Sequence[str]) -> None:
    """On the loop, which is the fault."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not told and time.monotonic() < deadline_s:
        time.sleep(0.01)


def test_who_holds_the_loop_is_named_and_its_end_is_told() -> None:
    told: list[str] = []

    async def main() -> None:
        watch = StallWatch(told.append, STILL_S)
        watch.start()
        await asyncio.sleep(0)
        wait_here_until(told)
        async with asyncio.timeout(PATIENCE_S):
            while len(told) < 2:
                await asyncio.sleep(STILL_S / 4)
        watch.close()

    asyncio.run(main())
    assert "stands still" in told[0]
    assert "wait_here_until" in told[0]
    assert told[1].startswith("this node goes on; it stood still for ")


def test_a_watch_ends_with_its_node() -> None:
    async def main() -> StallWatch:
        watch = StallWatch(lambda _: None, STILL_S)
        watch.start()
        await asyncio.sleep(0)
        watch.close()
        return watch

    assert not asyncio.run(main())._thread.is_alive()
