"""A machine that a node runs on, and that can fail.

How a node dies. Everything a node starts carries the mark of its present life (`Life`), because it is started from
code that runs inside that life. A crash takes three steps at one instant:
1. the life is over: its disk, network and threads raise `HostIsDown` from now on, so no effect of the dead node
   reaches anything that outlives it, whatever code of it is still on the stack;
2. the loop drops the life's callbacks and timers and closes its coroutines (`VirtualLoop.end`), so that no line of the
   dead node runs at a later time;
3. the device and the fabric decide what the crash leaves: the page cache or not, the bytes under way, the peers.
A restart is a new life on the same device, under the same name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.runtime.world import World
from headrace.simulation.environment.clock import SimulatedClock
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.simulation.environment.entropy import SeededEntropy
from headrace.simulation.environment.life import HostIsDown, Life
from headrace.simulation.environment.network import SimulatedNetwork
from headrace.simulation.environment.threads import SimulatedThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.simulation.environment.device import Operation
    from headrace.simulation.environment.universe import Universe


class Host:
    """Up from the start. `world` is what the node gets; after a restart it is another."""

    def __init__(self, universe: Universe, name: str) -> None:
        self._universe = universe
        self.name = name
        self.device = Device(universe.random(f"{name}/device"), universe.trace, name)
        self.clock = SimulatedClock(universe.loop)
        self.starts = 0
        self.last_words: Callable[[], None] = lambda: None
        """Called at the instant before a life ends, so that a test can note what the node knew."""
        self.is_down = asyncio.Event()
        self._begin_life()

    def _begin_life(self) -> None:
        self.starts += 1
        self.is_down.clear()
        self.life = Life(f"{self.name}#{self.starts}")
        self._universe.trace.note("up", self.life.name)
        chance = f"{self.name}/{self.starts}"
        self.threads = SimulatedThreads(self._universe.random(f"{chance}/threads"), self.life)
        self.world = World(
            clock=self.clock,
            disk=SimulatedDisk(self.device, self.life, is_used_by_a_loop=True),
            entropy=SeededEntropy(self._universe.random(f"{chance}/entropy")),
            network=SimulatedNetwork(self._universe.fabric, self.name, self.life),
            threads=self.threads,
        )

    @property
    def is_up(self) -> bool:
        return not self.life.is_over

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as part of this host's present life. Wait for it only if the host stays up."""
        context = self.life.context.copy()
        return self._universe.loop.create_task(work, name=f"{self.life.name} {name}", context=context)

    def crash(self) -> None:
        """SIGKILL: the process is gone; its kernel keeps the page cache and tells the peers."""
        self._universe.trace.note("crash", self.life.name)
        self._end_life()
        self._universe.fabric.process_died(self.life)

    def power_cut(self) -> None:
        """The machine is gone: unsynced bytes are left to chance, and the peers hear nothing."""
        self._end_life()
        self.device.power_cut()
        self._universe.fabric.power_lost(self.life, self.name)

    def _end_life(self) -> None:
        assert self.is_up, f"{self.name} is down already"
        self.last_words()
        self._universe.loop.end(self.life)
        self.is_down.set()

    def restart(self) -> World:
        assert not self.is_up, f"{self.name} is still up"
        self._universe.fabric.power_back(self.name)
        self._begin_life()
        return self.world

    def replace_disk(self) -> None:
        """The machine comes back with an empty one."""
        assert not self.is_up, f"{self.name} is still up"
        self._universe.trace.note("new disk", self.name)
        self.device = Device(
            self._universe.random(f"{self.name}/device {self.starts}"), self._universe.trace, self.name
        )

    def pause(self) -> None:
        """SIGSTOP: the node does nothing while time goes on; its peers see an open connection."""
        self._universe.trace.note("pause", self.life.name)
        self._universe.loop.suspend(self.life)

    def resume(self) -> None:
        self._universe.trace.note("resume", self.life.name)
        self._universe.loop.resume(self.life)

    def power_cut_at(self, step: int) -> None:
        """Cut the power right before the `step`-th next step on this disk, in the middle of whatever runs then."""
        steps_left = step

        def watcher(_operation: Operation, _path: str) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0:
                self.device.unwatch(watcher)
                self.power_cut()
                raise HostIsDown(f"{self.life.name} has lost its power")

        self.device.watch(watcher)
