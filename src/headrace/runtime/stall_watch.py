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
STOPS_KEPT = 8  # whoever asks, asks about the last seconds
FRAMES_SHOWN = 12  # the innermost; the rest is asyncio's


class StallWatch:
    """Start it on the loop's own thread. `tell` is called in the watching thread, with words for a log."""

    def __init__(self, tell: Callable[[str], None], still_s: float = STILL_S) -> None:
        self._tell = tell
        self._still_s = still_s
        self._loop_thread = threading.get_ident()
        self._seen_s = time.monotonic()
        """When the loop last showed that it runs."""
        self._due_s = self._seen_s + still_s / 2
        """When the watching thread looks next."""
        self._stops: tuple[tuple[float, float], ...] = ()
        """The last times, from and to, in which the whole process stood still; replaced as a whole, for any thread."""
        self._stalled_since_s: float | None = None
        """When a loop that stands still, as was told, last showed that it runs."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-stalls", daemon=True)

    def start(self) -> None:
        self._show_life(asyncio.get_running_loop())
        self._due_s = self._seen_s + self._still_s / 2
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._timer.cancel()
        self._thread.join()

    def stood_still_s(self, last_s: float) -> float:
        """For how long of the last so many seconds the whole process was stopped, or got no CPU. For any thread.

        Whoever asks when it has just gone on may be faster than the watching thread, which is late then.
        """
        now_s = time.monotonic()
        since_s = now_s - last_s
        due_s, stops = self._due_s, self._stops  # in this order: a stop is noted before the next look is due
        not_noted_yet = (max(due_s, stops[-1][1] if stops else due_s), now_s)
        return sum(max(0.0, to_s - max(from_s, since_s)) for from_s, to_s in (*stops, not_noted_yet))

    def _show_life(self, loop: asyncio.AbstractEventLoop) -> None:
        self._seen_s = time.monotonic()
        self._timer = loop.call_later(self._still_s / 2, self._show_life, loop)

    def _watch(self) -> None:
        while not self._is_over.wait(self._due_s - time.monotonic()):
            self._look(time.monotonic())

    def _look(self, now_s: float) -> None:
        seen_s, late_s = self._seen_s, now_s - self._due_s
        was_stopped = late_s > self._still_s / 2
        if was_stopped:
            self._stops = (*self._stops, (self._due_s, now_s))[-STOPS_KEPT:]
        self._due_s = now_s + self._still_s / 2
        if self._stalled_since_s is not None and seen_s != self._stalled_since_s:
            self._tell(f"this node goes on; it stood still for {seen_s - self._stalled_since_s:.1f} s")
            self._stalled_since_s = None
        # The loop's silence counts from a stop's end on: after it both threads wake, and this one may be the first.
        silent_since_s = max(seen_s, self._stops[-1][1]) if self._stops else seen_s
        if was_stopped:  # so was this thread, and it holds up nobody
            self._tell(f"this node's process was stopped, or got no CPU, for {late_s:.1f} s")
        elif self._stalled_since_s is None and now_s - silent_since_s > self._still_s:
            self._stalled_since_s = seen_s
            self._tell(f"this node stands still, and has not answered for {self._still_s:g} s. {self._place()}")

    def _place(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return "Its thread has ended"
        lines = traceback.format_list(traceback.extract_stack(frame)[-FRAMES_SHOWN:])
        return f"It is here:\n{''.join(lines).rstrip()}"
