"""The request that a run should end: who asks, and whether to wait for the batches under way."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from headrace_spark.pipeline.status.run_status import RunStatus


class StopSwitch:
    """May be pressed from any thread, and from a signal's handler."""

    def __init__(self) -> None:
        self.pressed = threading.Event()
        self.forced = threading.Event()
        """Do not wait for the batches under way."""
        self.reason = ""
        self.signal_number: int | None = None
        self.taken_over_by: RunStatus | None = None

    def ask(self, who: str) -> None:
        """End after the batches under way; `who` asks is kept as the reason."""
        self._press(f"asked by {who}")

    def take_over(self, other: RunStatus) -> None:
        """Another run works on the same checkpoint: nothing more may be begun here."""
        self.taken_over_by = other
        self._press(f"taken over by {other.where}")
        self.forced.set()

    def _press(self, reason: str) -> None:
        if not self.pressed.is_set():
            self.reason = reason
            self.pressed.set()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.pressed.is_set():
            self.forced.set()  # the second Ctrl-C
        self.signal_number = self.signal_number or number
        self._press(signal.Signals(number).name)

    @contextmanager
    def pressed_by_signals(self) -> Iterator[Callable[[], None]]:
        """SIGINT and SIGTERM, in the main thread. Gives a function to call after Spark, too, has set handlers."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}

        def listen_again() -> None:
            for number in numbers:
                signal.signal(number, self._on_signal)

        try:
            yield listen_again
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
