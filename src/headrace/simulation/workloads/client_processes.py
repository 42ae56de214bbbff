"""Clients with a process of their own: they come and go, die, and are stopped for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from headrace.simulation.environment.host import Host
    from headrace.simulation.workloads.context import WorkloadContext

LIVES_S: Final = (1.0, 4.0, 10.0)  # at most, from one change to the next
PAUSES_S: Final = (0.2, 2.0, 9.0)  # at most: shorter than a session, and longer
GONE_S: Final = (0.1, 1.0, 6.0)  # at most, until it is started again
STEP_S: Final = 0.05


class ClientProcess:
    """Runs `work` on a host of its own, again and again. The seed decides how each run ends."""

    def __init__(
        self, context: WorkloadContext, name: str, work: Callable[[ClientProcess], Coroutine[Any, Any, None]]
    ) -> None:
        self.context = context
        self.name = name
        self.chance = context.random(f"{name}/life")
        self.launches = 0
        self._must_leave = False
        self.on_death: Callable[[], None] = lambda: None
        """Called at the instant after it was killed."""
        self._work = work
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._host.is_up and self._task is not None and not self._task.done()

    def must_leave(self) -> bool:
        """It was asked to leave in good order."""
        return self._must_leave

    def launch(self) -> None:
        if not self._host.is_up:
            self._host.restart()
        self.launches += 1
        self._must_leave = False
        self._task = self._host.start(self._work(self), "client")
        self._task.add_done_callback(_raise_its_error)

    async def live(self) -> None:
        """Until the run is over. Then it runs, unless it was killed and left for dead."""
        self.launch()
        while True:
            await self.context.rest_between(self.chance.choice(LIVES_S) * self.chance.random())
            if self.context.is_over():
                break
            match self.chance.choice(("stay", "leave", "kill", "kill", "pause")):
                case "leave":
                    await self.leave()
                    await self._return()
                case "kill":
                    self.kill()
                    await self._return()
                case "pause":
                    await self._pause()
                case _:
                    pass

    async def leave(self) -> None:
        """Ask it to leave in good order, and wait until it has."""
        self._must_leave = True
        while self.is_running:  # noqa: ASYNC110 - its host may go down instead
            await asyncio.sleep(STEP_S)

    def kill(self) -> None:
        if self._host.is_up:
            self._host.crash()
            self.on_death()

    async def _return(self) -> None:
        await self.context.rest(self.chance.choice(GONE_S) * self.chance.random())
        if not self.context.is_over():
            self.launch()

    async def _pause(self) -> None:
        self._host.pause()
        await self.context.rest(self.chance.choice(PAUSES_S) * self.chance.random())
        self._host.resume()

    @property
    def _host(self) -> Host:
        return self.context.cluster.client_host(self.name)


def _raise_its_error(task: asyncio.Task[None]) -> None:
    """A client that breaks is a bug, and nobody else looks at how it ended."""
    if not task.cancelled():
        task.result()
