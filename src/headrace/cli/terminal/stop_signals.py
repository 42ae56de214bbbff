"""Ctrl-C and SIGTERM, for commands that are there to be stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from headrace.cli.terminal.complaints import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable


def stop_signal(last_act: Callable[[], None] | None = None) -> asyncio.Future[None]:
    """Done when Ctrl-C or SIGTERM asks for a stop.

    Whoever presses Ctrl-C during a stop is in a hurry: after `last_act` the process ends at once. SIGTERM changes
    nothing then: who supervises processes may send it twice, and has SIGKILL for those that take too long.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def asked() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not stop.done():
            stop.set_result(None)

    def interrupted() -> None:
        if stop.done():
            if last_act is not None:
                last_act()
            os._exit(INTERRUPTED)  # an exception here would end the loop in the middle of everything, with all traces
        asked()

    def terminated(*_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(asked)

    loop.add_signal_handler(signal.SIGINT, interrupted)
    # A loop takes its own handlers away when it closes. Then SIGTERM would kill a process that has all but ended well.
    signal.signal(signal.SIGTERM, terminated)
    return stop
