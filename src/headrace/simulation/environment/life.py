"""One run of a node's process, from its start to its crash.

asyncio cannot kill a task: a cancelled task runs its cleanup code. So a life is not a list of tasks but a mark in the
`contextvars` context, which asyncio hands on to every task, timer and callback that is started from it. When the life
ends, the loop forgets everything that carries the mark; see `VirtualLoop.end`.
"""

from __future__ import annotations

from contextvars import Context, ContextVar


class HostIsDown(BaseException):  # not an Exception: no `except Exception` of a dead node may carry on
    """Raised in code that a dead node is still unwinding. It reaches nobody outside that node."""


class Life:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_over = False
        self.is_suspended = False
        self.is_running = True
        """Neither of the two."""
        self.is_in_thread = False
        """Whether what runs now runs beside the loop, where it may wait for the device."""
        self.resumed_s = -1.0
        """The moment at which it last went on after a pause."""
        self.context = Context()
        self.context.run(LIFE.set, self)

    def suspend(self) -> None:
        assert self.is_running, f"{self.name} is down, or stands still already"
        self.is_suspended, self.is_running = True, False

    def resume(self, now_s: float) -> None:
        assert self.is_suspended, f"{self.name} does not stand still"
        self.is_suspended, self.is_running, self.resumed_s = False, True, now_s

    def end(self) -> None:
        self.is_over, self.is_suspended, self.is_running = True, False, False

    def check(self) -> None:
        """Every way out of a node asks this first."""
        if self.is_over:
            raise HostIsDown(f"{self.name} is down")


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)
"""Whose life the running code is part of."""

OUTSIDE = Context()
"""For what belongs to no node: bytes on a wire travel on when their sender dies."""
