"""Where the cleaning of a log runs: in a process of its own, or in a thread of this one."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.runtime.disk import ReadFault
from headrace.runtime.worker_process import WorkerProcess
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import Damaged, Failed, decode_event, is_last_event
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import damage_by

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from headrace.runtime.world import World
    from headrace.storage.compaction.job import CleaningJob, Event

LANE = "cleaner"
WORKER = "headrace.storage.compaction.worker_main"


class CleaningWorker(Protocol):
    def run(self, job: CleaningJob, bytes_per_s: float) -> AsyncGenerator[Event, None]:
        """One pass, event by event; the next step may begin before an event is dealt with. Close it to end early."""
        ...

    async def rest(self) -> None:
        """There is nothing more to do for now."""
        ...


class InProcess:
    """For a node that serves: the loop feels nothing of it but its disk. WorkerProcessEnded if the process dies."""

    def __init__(self, root: str) -> None:
        self._process = WorkerProcess(WORKER, root)

    async def run(self, job: CleaningJob, bytes_per_s: float) -> AsyncGenerator[Event, None]:
        line = f"{bytes_per_s!r} ".encode() + job.encode()
        async with aclosing(self._process.ask(line, is_last_event)) as lines:
            async for answer in lines:
                yield decode_event(answer)

    async def rest(self) -> None:
        await self._process.let_go()


class InThread:
    """For a simulated node, and for one that lives inside a test: step by step, and without a throttle."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self, job: CleaningJob, bytes_per_s: float) -> AsyncGenerator[Event, None]:  # noqa: ARG002 - nobody counts
        steps = clean(self._world.disk, job)
        while (event := await self._world.threads.run(partial(_next_event, steps), lane=LANE)) is not None:
            yield event

    async def rest(self) -> None:
        pass  # a thread costs nothing while it waits


def _next_event(steps: Iterator[Event]) -> Event | None:
    try:
        return next(steps, None)
    except DamagedLog as damage:
        return Damaged.from_error(damage)
    except ReadFault as fault:
        return Damaged.from_error(damage_by(fault))
    except OSError as error:
        return Failed(error.errno or 0, str(error))
