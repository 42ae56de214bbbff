"""What goes wrong in a run: a handful of kinds, drawn by the seed, one after the other or on top of each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from headrace.runtime.tasks import TaskScope
from headrace.simulation.environment.fabric import Weather
from headrace.simulation.faults.disk_faults import BAD_SECTOR, BIT_ROT, DiskFaults
from headrace.simulation.faults.lost_disks import LOST_DISK, OLDER_DISK, TORN_DISK, LostDisks
from headrace.simulation.faults.network_faults import REJECTED, NetworkFaults
from headrace.simulation.faults.node_faults import NodeFaults

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine
    from typing import Any

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.life import Life

    Fault = Callable[[NodeProcess], Coroutine[Any, Any, None]]

PHASE_S = 60.0  # a longer run changes its kinds as often
KINDS = (0, 1, 1, 2, 2, 3, 3, 4, 5)  # in one run: few show what each does, and all seeds together mix them all
DEATHS = ("crash", "power cut", "power cut in the middle")  # and one of these: other faults show when a node starts
BESIDE = 0.25  # how often each of those is among the kinds that are drawn by a chance of their own
GAPS_S = (0.5, 3.0, 8.0)  # at most this long from one to the next


class Faults:
    """Called on nodes while they are up or down; what does not apply at the moment does nothing."""

    def __init__(
        self, cluster: SimulatedCluster, kinds: Collection[str] | None = None, *, gap_factor: float = 1.0
    ) -> None:
        """`kinds` are the names of those that may happen; None lets the seed choose. `gap_factor` spreads them."""
        self._cluster = cluster
        self._chance = cluster.universe.random("faults")
        self.happened: Counter[str] = Counter()
        self._lasting = TaskScope(self._broke)
        self._gap_factor = gap_factor
        self._nodes = NodeFaults(cluster, self._chance, self.happened)
        self._disks = DiskFaults(cluster, self._chance, self.happened)
        self._lost_disks = LostDisks(cluster, self._chance, self.happened, self._nodes)
        self._network = NetworkFaults(cluster, self._chance)
        self._every = self._faults_of_any()
        if len(cluster.nodes) > 1:
            self._every |= self._faults_among_several()
        self._drawn = list(self._every)
        self._beside = {name: cluster.universe.random(name) for name in (BAD_SECTOR, REJECTED)}
        if len(cluster.nodes) > 1:
            self._every |= {BAD_SECTOR: self._disks.spoil, REJECTED: self._network.reject}
        if kinds is not None:  # only by name: with every other fault, the last whole copy could be lost
            self._every |= {
                BIT_ROT: self._disks.rot,
                LOST_DISK: self._lost_disks.lose_disk,
                TORN_DISK: self._lost_disks.tear_disk,
                OLDER_DISK: self._lost_disks.put_older_disk_back,
            }
        self._are_kinds_given = kinds is not None
        self._kinds = self._draw() if kinds is None else [name for name in self._every if name in kinds]

    # The order of these is what a seed draws from: a new kind comes last, with a chance of its own.

    def _faults_of_any(self) -> dict[str, Fault]:
        return {
            "crash": self._nodes.crash,
            "power cut": self._nodes.cut_power,
            "power cut in the middle": self._nodes.cut_power_soon,
            "clean restart": self._nodes.restart,
            "full disk": self._disks.fill,
            "failed sync": self._disks.fail_sync,
            "failed write": self._disks.fail_write,
            "slow disk": self._disks.slow_down,
            "pause": self._nodes.pause,
            "cut connections": self._network.cut_connections,
            "partition": self._network.partition,
            "clock jump": self._nodes.jump_clock,
        }

    def _faults_among_several(self) -> dict[str, Fault]:
        return {
            "crash of several": self._nodes.crash_several,
            "power cut of several": self._nodes.cut_power_of_several,
            "crash of the controller": self._nodes.crash_controller,
            "pause about a session's length": self._nodes.pause_a_session,
            "halves": self._network.halve,
            "cut off from the others": self._network.cut_off,
        }

    @property
    def failed_lives(self) -> list[Life]:
        """Of nodes whose disk has failed: none of them may go on."""
        return self._disks.failed_lives

    def _draw(self) -> list[str]:
        """Those that came later have their own chance: what a seed drew before, it still draws."""
        kinds = self._chance.sample(self._drawn, self._chance.choice(KINDS))
        if kinds:
            kinds.append(self._chance.choice(DEATHS))
        kinds += [name for name, chance in self._beside.items() if chance.random() < BESIDE]
        return [name for name in self._every if name in kinds]

    async def strike(self, duration_s: float) -> None:
        """Trouble for this long; then whatever still lasts is for `heal`."""
        while duration_s > 0:
            await self._strike_one_phase(min(duration_s, PHASE_S))
            duration_s -= PHASE_S
            if duration_s > 0 and not self._are_kinds_given:
                self._kinds = self._draw()

    async def _strike_one_phase(self, duration_s: float) -> None:
        loop = self._cluster.universe.loop
        deadline_s = loop.time() + duration_s
        while loop.time() < deadline_s:
            await asyncio.sleep(self._chance.choice(GAPS_S) * self._chance.random() * self._gap_factor)
            if not self._kinds:
                continue
            name = self._chance.choice(self._kinds)
            self.happened[name] += 1
            self._cluster.universe.trace.note("fault", name)
            # One that lasts goes on while the next begins: a slow disk loses its power too.
            self._lasting.start(self._every[name](self._chance.choice(self._cluster.nodes)), name)

    async def heal(self) -> None:
        """From now on nothing is wrong."""
        await self._lasting.close()
        fabric = self._cluster.universe.fabric
        fabric.weather = Weather()
        fabric.heal(break_fraction=0.5)
        for process in self._cluster.nodes:
            process.host.device.heal()
            process.flush_slowness = 1.0
            process.host.threads.slowness.clear()
            process.host.clock.skew_ms = 0
            if process.host.is_up and process.host.life.is_suspended:
                process.host.resume()

    @staticmethod
    def _broke(name: str, error: BaseException) -> None:
        raise RuntimeError(f"the fault {name!r} could not be arranged") from error
