"""`python -m bench.turning_node serve …`: a node that notes every long turn of its event loop, and where it was spent.

A turn is what the loop does between two looks at its sockets. Its CPU time is the fair measure on a machine that is
busy with others; the time on the wall is what clients feel. Each turn over `NOTED_S` becomes a line of the file that
BENCH_TURNS names, with the part of it that the garbage collector took.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import sys
import threading
import time
from typing import TYPE_CHECKING

from headrace.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

NOTED_S = 0.01
LOOK_S = 0.005
FRAMES = 8  # the innermost


class TurnClock:
    def __init__(self, path: str | Path) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115 - as long as the process
        self._loop_thread = threading.get_ident()
        self._began_s = self._began_cpu_s = self._collecting_cpu_s = self._collected_s = 0.0
        self._is_turning = False
        self._places: list[str] = []
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._look_on, name="bench-turns", daemon=True).start()

    def begin(self) -> None:
        self._began_s, self._began_cpu_s = time.monotonic(), time.thread_time()
        self._collected_s = 0.0
        self._is_turning = True

    def end(self) -> None:
        if not self._is_turning:
            return
        self._is_turning = False
        cpu_s, wall_s = time.thread_time() - self._began_cpu_s, time.monotonic() - self._began_s
        places, self._places = self._places, []
        if cpu_s >= NOTED_S:
            turn = {"at_s": self._began_s, "cpu_s": cpu_s, "wall_s": wall_s, "gc_s": self._collected_s, "at": places}
            self._file.write(json.dumps(turn) + "\n")

    def _collects(self, phase: str, _: object) -> None:
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._collecting_cpu_s = time.thread_time()
        else:
            self._collected_s += time.thread_time() - self._collecting_cpu_s

    def _look_on(self) -> None:
        """From another thread, which takes the time of nobody but a loop that is long at it already."""
        while True:
            time.sleep(LOOK_S)
            if self._is_turning and time.monotonic() - self._began_s >= NOTED_S:
                self._places.append(self._place())

    def _place(self) -> str:
        """By hand: `traceback` looks every file up on the disk, and takes a third of the time that it measures."""
        frame: FrameType | None = sys._current_frames()[self._loop_thread]
        places: list[str] = []
        while frame is not None and len(places) < FRAMES:
            code = frame.f_code
            if "headrace" in code.co_filename:
                places.append(f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno}:{code.co_name}")
            frame = frame.f_back
        return " > ".join(reversed(places))


def watch(clock: TurnClock) -> None:
    class WatchedSelector(selectors.DefaultSelector):  # type: ignore[valid-type, misc]  # it is chosen at run time
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            clock.end()
            ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
            clock.begin()
            return ready

    selectors.DefaultSelector = WatchedSelector  # type: ignore[misc]  # asyncio asks for it by this name


if __name__ == "__main__":
    watch(TurnClock(os.environ["BENCH_TURNS"]))
    main()
