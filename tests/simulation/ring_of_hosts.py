"""A busy little run that touches every simulated part. Started as a program it prints its trace's fingerprint."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from headrace.runtime.network import Address
from headrace.runtime.tasks import TaskScope
from headrace.simulation.environment.universe import Universe, run

if TYPE_CHECKING:
    from headrace.runtime.network import Link
    from headrace.runtime.world import World

HOSTS = ("amsel", "buche", "clio")
PORT = 9092


class Inlet:
    """Appends what arrives to a log and syncs it."""

    def __init__(self, world: World, scope: TaskScope) -> None:
        self._world = world
        self._scope = scope
        self._buffer = bytearray(100)
        self._log = world.disk.open("log", create=True)

    def connected(self, link: Link) -> None:
        self._link = link

    def buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        self._log.append([self._buffer[:count]])
        self._log.lease()  # it may be closed before the sync has its turn
        self._scope.start(self._sync(), "sync")

    async def _sync(self) -> None:
        await self._world.threads.run(self._log.sync, lane="sync")
        self._log.release()

    def drained(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None:
        self._log.close()


class Outlet(Inlet):
    def received(self, count: int) -> None:
        raise AssertionError("nobody answers here")


async def live(world: World, next_host: str) -> None:
    def fail(name: str, error: BaseException) -> None:
        raise error

    scope = TaskScope(fail)
    await world.network.listen(Address("0.0.0.0", PORT), lambda: Inlet(world, scope))
    while True:
        try:
            link = await world.network.connect(Address(next_host, PORT), Outlet(world, scope))
        except OSError:
            await asyncio.sleep(0.1 + world.entropy.fraction())
            continue
        for _ in range(5):
            link.send([world.entropy.token(300), b"%d" % world.clock.wall_ms()])
            await asyncio.sleep(world.entropy.fraction())
        link.close()


async def ring(universe: Universe) -> str:
    chance = universe.random("faults")

    def start(name: str) -> None:
        next_host = HOSTS[(HOSTS.index(name) + 1) % len(HOSTS)]
        universe.host(name).start(live(universe.host(name).world, next_host), "live")

    for name in HOSTS:
        universe.host(name)
    for name in HOSTS:
        start(name)
    for _ in range(10):
        await asyncio.sleep(2 + chance.random() * 5)
        victim = universe.host(chance.choice(HOSTS))
        chance.choice((victim.crash, victim.power_cut))()
        universe.fabric.partition([HOSTS[0]], HOSTS[1:])
        await asyncio.sleep(chance.random() * 5)
        victim.restart()
        universe.fabric.heal(break_fraction=0.5)
        start(victim.name)
    return universe.trace.fingerprint


if __name__ == "__main__":
    print(run(ring, int(sys.argv[1])))
