"""What befalls a disk that stays: it is full, slow, refuses to write, or gives back other bytes than it was given."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from headrace.simulation.environment.device import Operation, os_error
from headrace.simulation.faults.bit_rot import flip_a_bit, spoil_a_sector
from headrace.storage.files import layout

if TYPE_CHECKING:
    from collections import Counter
    from random import Random

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.life import Life

BIT_ROT = "bit rot"
BAD_SECTOR = "bad sector"
LANES = ("flush", "metadata-flush", "general")
SPACE_LEFT_BYTES = (0, 20_000)


class DiskFaults:
    def __init__(self, cluster: SimulatedCluster, chance: Random, happened: Counter[str]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._happened = happened
        self.failed_lives: list[Life] = []
        """Of nodes whose disk has failed: none of them may go on."""

    async def fill(self, process: NodeProcess) -> None:
        device = process.host.device
        device.capacity_bytes = device.used_bytes + self._chance.randint(*SPACE_LEFT_BYTES)
        await asyncio.sleep(self._chance.uniform(0.5, 8.0))
        device.capacity_bytes = None

    async def fail_sync(self, process: NodeProcess) -> None:
        operation = self._chance.choice((Operation.SYNC, Operation.SYNC_DIRECTORY, Operation.SYNC_EVERYTHING))
        self._fail(process, operation, self._chance.randint(0, 20))

    async def fail_write(self, process: NodeProcess) -> None:
        operation = self._chance.choice((Operation.WRITE, Operation.CREATE, Operation.RENAME, Operation.TRUNCATE))
        self._fail(process, operation, self._chance.randint(0, 50))

    def _fail(self, process: NodeProcess, operation: Operation, skip: int) -> None:
        """The next such operation fails, after `skip` that succeed; and whoever met it must not carry on."""
        device = process.host.device

        def watcher(happening: Operation, path: str) -> None:
            nonlocal skip
            if happening is not operation or path.endswith(layout.CLEANED):  # a draft is thrown away, no more
                return
            skip -= 1
            if skip < 0:
                device.unwatch(watcher)
                self.failed_lives.append(process.host.life)
                raise os_error(errno.EIO, path)

        device.watch(watcher)

    async def rot(self, process: NodeProcess) -> None:
        if not flip_a_bit(self._cluster, process, self._chance):
            self._happened[BIT_ROT] -= 1

    async def spoil(self, process: NodeProcess) -> None:
        if not spoil_a_sector(self._cluster, process, self._chance):
            self._happened[BAD_SECTOR] -= 1

    async def slow_down(self, process: NodeProcess) -> None:
        threads = process.host.threads
        lane = self._chance.choice(LANES)
        threads.slowness[lane] = self._chance.choice((5.0, 50.0, 300.0))
        await asyncio.sleep(self._chance.uniform(0.5, 6.0))
        threads.slowness[lane] = process.flush_slowness if lane == "flush" else 1.0
