"""One flusher for the whole node: group commit.

A round takes every log that wants to be flushed, syncs them all in one call to a thread, and then tells each of them.
While it runs, the next round's wishes gather. So the number of syncs follows the speed of the disk, not the number of
requests.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import DiskFailure
from headrace.runtime.tasks import Breather

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.runtime.disk import Disk
    from headrace.runtime.world import World
    from headrace.storage.log.flushing import FlushTicket
    from headrace.storage.log.partition_log import PartitionLog

LANE = "flush"
LINGER_S = 0.25  # for what nobody waits for; shorter, and pages are written out while they still grow
SLOW_S = 2.0  # a sync that takes longer is worth a word: every ack waits for it
SINGLE_SYNCS_MAX = 4  # each waits for the device; one sync of the whole file system waits once


class Flusher:
    def __init__(
        self,
        world: World,
        *,
        on_flushed: Callable[[PartitionLog], None],
        on_slow: Callable[[float], None] = lambda _: None,
        linger_s: float = LINGER_S,
    ) -> None:
        """`on_slow` is told how long a sync took, if that was too long."""
        self._world = world
        self._on_flushed = on_flushed
        self._on_slow = on_slow
        self._linger_s = linger_s
        self._wanted: dict[PartitionLog, None] = {}
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def want(self, log: PartitionLog, *, is_urgent: bool) -> None:
        """Flush what the log holds now: at once if it is urgent, else together with what comes a little later."""
        self._wanted[log] = None
        if is_urgent:
            self._wake.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._linger_s, self._wake.set)

    async def run(self) -> None:
        """Flush until cancelled. A DiskFailure ends it for good: what a failed sync left on disk is unknown."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            wanted, self._wanted = self._wanted, {}
            await self.flush(list(wanted))

    async def flush(self, logs: Sequence[PartitionLog]) -> None:
        """One round."""
        breather = Breather(self._world.clock)
        tickets: list[tuple[PartitionLog, FlushTicket]] = []
        for log in logs:
            ticket = log.flushing.begin()
            if ticket is not None:
                tickets.append((log, ticket))
            await breather.breathe()
        if not tickets:
            return
        await self._sync_in_lane(partial(_sync, self._world.disk, [ticket for _, ticket in tickets]))
        for log, ticket in tickets:
            log.flushing.finish(ticket)
            if not log.is_closed:
                self._on_flushed(log)
                if log.cuts != ticket.cuts:  # the round was for nothing, and who cut it may never write to it again
                    self.want(log, is_urgent=True)
            await breather.breathe()

    async def sync_everything(self) -> None:
        """Whatever was written by now is on the device, wherever it lies."""
        await self._sync_in_lane(partial(_sync_everything, self._world.disk))

    async def _sync_in_lane(self, sync: Callable[[], None]) -> None:
        began_s = self._world.clock.monotonic_s()
        await self._world.threads.run(sync, lane=LANE)
        took_s = self._world.clock.monotonic_s() - began_s
        if took_s >= SLOW_S:
            self._on_slow(took_s)


def _sync_everything(disk: Disk) -> None:
    try:
        disk.sync_everything()
    except OSError as error:
        raise DiskFailure(f"the disk failed to sync: {error}") from error


def _sync(disk: Disk, tickets: Sequence[FlushTicket]) -> None:
    try:
        if sum(ticket.sync_count for ticket in tickets) > SINGLE_SYNCS_MAX:
            disk.sync_everything()
        else:
            for ticket in tickets:
                ticket.sync(disk)
    except OSError as error:
        raise DiskFailure(f"the disk failed to sync: {error}. What it holds of the last writes is unknown") from error
