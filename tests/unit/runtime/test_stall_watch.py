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


STOPPED_S = 5 * STILL_S
SEEN_STOPPED_S = 4 * STILL_S  # the stop may begin just after a look, and a look comes every half of STILL_S

WATCHED = f"""
import asyncio
import os
from headrace.runtime.stall_watch import StallWatch

def tell(words):
    os.write(1, (words + "\\n").encode())  # in one piece: two threads tell, and print writes the end of a line apart

async def main():
    watch = StallWatch(tell, {STILL_S})
    watch.start()
    tell("watching")
    while watch.stood_still_s({PATIENCE_S}) <= {SEEN_STOPPED_S}:
        await asyncio.sleep({STILL_S} / 10)
    tell(f"had stopped for {{watch.stood_still_s({PATIENCE_S})}} {{watch.stood_still_s(0)}}")
    await asyncio.sleep({PATIENCE_S})

asyncio.run(main())
"""


def test_a_process_that_was_stopped_says_so() -> None:
    with subprocess.Popen([sys.executable, "-c", WATCHED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)  # this is how long it is stopped, and waits for nothing
        os.kill(process.pid, signal.SIGCONT)
        told: list[str] = []
        # Both come, in either order, and on a busy machine not alone: there the process also stands still by itself.
        while not (is_told(told, "process was stopped") and is_told(told, "had stopped for")):
            told.append(process.stdout.readline())
            assert told[-1], told
        process.kill()
    (had_stopped,) = (line.split() for line in told if line.startswith("had stopped for"))
    assert float(had_stopped[3]) > SEEN_STOPPED_S
    assert float(had_stopped[4]) == 0


def test_a_stop_blames_no_line_before_the_loop_had_its_time_again() -> None:
    told: list[str] = []
    watch = StallWatch(told.append, still_s=2)  # it is not started: here it looks when the test says so
    watch._seen_s, watch._due_s = 10, 11
    watch._look(60)
    assert told.pop() == "this node's process was stopped, or got no CPU, for 49.0 s"
    watch._look(61)
    watch._look(62)
    assert not told
    watch._look(63)
    assert "stands still" in told.pop()
    watch._look(64)
    assert not told
    watch._seen_s = 64.5
    watch._look(65)
    assert told == ["this node goes on; it stood still for 54.5 s"]


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
