"""A loop that stands still is seen from outside, and the log says where."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.stall_watch import StallWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

STILL_S = 0.1
PATIENCE_S = 30.0


def is_told(told: Sequence[str], words: str) -> bool:
    """Among others: on a busy machine the watch itself may be late, and says so."""
    return any(words in line for line in told)


def wait_here_until_told(told: Sequence[str]) -> None:
    """On the loop, which is the fault."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_told(told, "stands still") and time.monotonic() < deadline_s:
        time.sleep(0.01)


def test_who_holds_the_loop_is_named_and_its_end_is_told() -> None:
    told: list[str] = []

    async def main() -> None:
        watch = StallWatch(told.append, STILL_S)
        watch.start()
        await asyncio.sleep(0)
        wait_here_until_told(told)
        async with asyncio.timeout(PATIENCE_S):
            while not is_told(told, "this node goes on; it stood still for "):
                await asyncio.sleep(STILL_S / 4)
        watch.close()

    asyncio.run(main())
    assert is_told(told, "wait_here_until_told")


WATCHED = f"""
import asyncio
from headrace.runtime.stall_watch import StallWatch

async def main():
    watch = StallWatch(lambda words: print(words, flush=True), {STILL_S})
    watch.start()
    print("watching", flush=True)
    while True:
        await asyncio.sleep({STILL_S} / 10)
        if watch.stood_still_s({PATIENCE_S}) > {STILL_S}:
            print("stood still", watch.stood_still_s({PATIENCE_S}), watch.stood_still_s(0), flush=True)
            await asyncio.sleep({PATIENCE_S})

asyncio.run(main())
"""


def test_a_process_that_was_stopped_says_so_and_blames_no_line() -> None:
    with subprocess.Popen([sys.executable, "-c", WATCHED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(5 * STILL_S)
        os.kill(process.pid, signal.SIGCONT)
        told = [process.stdout.readline(), process.stdout.readline()]
        process.kill()
    assert is_told(told, "process was stopped")
    (stood_still,) = (line for line in told if line.startswith("stood still"))
    assert float(stood_still.split()[2]) > 4 * STILL_S
    assert float(stood_still.split()[3]) == 0


def test_a_stop_counts_as_far_as_it_lies_in_the_time_that_is_asked_for() -> None:
    watch = StallWatch(lambda _: None, still_s=PATIENCE_S)  # it is not started: nobody looks, and nobody is late
    now_s = time.monotonic()
    watch._stops = ((now_s - 100, now_s - 90), (now_s - 20, now_s - 17))
    assert watch.stood_still_s(10) == 0
    assert watch.stood_still_s(50) == pytest.approx(3)
    assert watch.stood_still_s(95) == pytest.approx(8, abs=PATIENCE_S / 100)


def test_a_watch_ends_with_its_node() -> None:
    async def main() -> StallWatch:
        watch = StallWatch(lambda _: None, STILL_S)
        watch.start()
        await asyncio.sleep(0)
        watch.close()
        return watch

    assert not asyncio.run(main())._thread.is_alive()
