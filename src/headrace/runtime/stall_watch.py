"""Tells when the event loop stands still, and where: a thread looks at it from outside.

While it stands still a node answers nobody and sends no heartbeat, so others take over what it leads. Whoever wants to
know why finds the place in the log.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STILL_S = 1.0  # half of a session: soon others give up on this node
FRAMES_SHOWN = 12  # the innermost; the rest is asyncio's


class StallWatch:
    """Start it on the loop's own thread. `tell` is called in the watching thread, with words for a log."""

    def __init__(self, tell: Callable[[str], None], still_s: float = STILL_S) -> None:
        self._tell = tell
        self._still_s = still_s
        self._loop_thread = threading.get_ident()
        self._seen_s = time.monotonic()
        """When the loop last showed that it runs."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-stalls", daemon=True)

    def start(self) -> None:
        self._show_life(asyncio.get_running_loop())
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._timer.cancel()
        self._thread.join()

    def _show_life(self, loop: asyncio.AbstractEventLoop) -> None:
        self._seen_s = time.monotonic()
        self._timer = loop.call_later(self._still_s / 2, self._show_life, loop)

    def _watch(self) -> None:
        stalled_since_s: float | None = None
        due_s = self._next_look_s()
        while not self._is_over.wait(due_s - time.monotonic()):
            seen_s, late_s, due_s = self._seen_s, time.monotonic() - due_s, self._next_look_s()
            if stalled_since_s is not None and seen_s != stalled_since_s:
                self._tell(f"this node goes on; it stood still for {seen_s - stalled_since_s:.1f} s")
                stalled_since_s = None
            if late_s > self._still_s / 2:  # so was this thread, and it holds up nobody
                self._tell(f"this node's process was stopped, or got no CPU, for {late_s:.1f} s")
            elif stalled_since_s is None and time.monotonic() - seen_s > self._still_s:
                stalled_since_s = seen_s
                self._tell(f"this node stands still, and has not answered for {self._still_s:g} s. {self._place()}")

    def _next_look_s(self) -> float:
        return time.monotonic() + self._still_s / 2

    def _place(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return "Its thread has ended"
        lines = traceback.format_list(traceback.extract_stack(frame)[-FRAMES_SHOWN:])
        return f"It is here:\n{''.join(lines).rstrip()}"
