"""What goes wrong in a run: a handful of kinds, drawn by the seed, one after the other or on top of each other."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from headrace.broker.metadata.store import METADATA_LOG
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.metadata.liveness import SESSION_MS
from headrace.runtime.tasks import TaskScope
from headrace.simulation.environment.device import Operation, os_error
from headrace.simulation.environment.fabric import Weather
from headrace.simulation.environment.life import HostIsDown
from headrace.simulation.faults.bit_rot import rot, spoil
from headrace.storage.files import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine
    from typing import Any

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.device import StoredDirectory
    from headrace.simulation.environment.fabric import Fabric
    from headrace.simulation.environment.life import Life

SKEW_MAX_MS = 3_000_000  # the node refuses records from more than an hour ahead, and should not refuse all of them
PHASE_S = 60.0  # a longer run changes its kinds as often
KINDS = (0, 1, 1, 2, 2, 3, 3, 4, 5)  # in one run: few show what each does, and all seeds together mix them all
DEATHS = ("crash", "power cut", "power cut in the middle")  # and one of these: other faults show when a node starts
BIT_ROT = "bit rot"
BAD_SECTOR = "bad sector"
REJECTED = "rejected connections"
LOST_DISK = "lost disk"
BESIDE = 0.25  # how often each of those is among the kinds that are drawn by a chance of their own
DISK_REPLACED = "disk replaced"  # counts those that were lost in fact
TORN_DISK = "outage with a torn disk"
OLDER_DISK = "outage with an older disk"
TORN_BYTES_MAX = 5_000  # of each log: a few batches, or all of it
GAPS_S = (0.5, 3.0, 8.0)  # at most this long from one to the next
LANES = ("flush", "metadata-flush", "general")
METADATA_DIRECTORY = layout.directory_of(METADATA_LOG)
STEPS_AHEAD = (1, 300)  # of the disk, until a power cut in the middle of something
STEPS_INTO_RECOVERY = (1, 120)
SPACE_LEFT_BYTES = (0, 20_000)


class Faults:
    """Called on nodes while they are up or down; what does not apply at the moment does nothing."""

    def __init__(
        self, cluster: SimulatedCluster, kinds: Collection[str] | None = None, *, gap_factor: float = 1.0
    ) -> None:
        """`kinds` are the names of those that may happen; None lets the seed choose. `gap_factor` spreads them."""
        self._cluster = cluster
        self._chance = cluster.universe.random("faults")
        self.happened: Counter[str] = Counter()
        self.failed_lives: list[Life] = []
        """Of nodes whose disk has failed: none of them may go on."""
        self._lasting = TaskScope(self._broke)
        self._gap_factor = gap_factor
        self._every: dict[str, Callable[[NodeProcess], Coroutine[Any, Any, None]]] = {
            "crash": self._crash,
            "power cut": self._cut_power,
            "power cut in the middle": self._cut_power_soon,
            "clean restart": self._restart,
            "full disk": self._fill_disk,
            "failed sync": self._fail_sync,
            "failed write": self._fail_write,
            "slow disk": self._slow_down,
            "pause": self._pause,
            "cut connections": self._cut_connections,
            "partition": self._partition,
            "clock jump": self._jump_clock,
        }
        if len(cluster.nodes) > 1:
            self._every |= {
                "crash of several": self._crash_several,
                "power cut of several": self._cut_power_of_several,
                "crash of the controller": self._crash_controller,
                "pause about a session's length": self._pause_a_session,
                "halves": self._halve,
                "cut off from the others": self._cut_off,
            }
        self._drawn = list(self._every)
        self._beside = {name: cluster.universe.random(name) for name in (BAD_SECTOR, REJECTED)}
        if len(cluster.nodes) > 1:
            self._every |= {BAD_SECTOR: self._spoil, REJECTED: self._reject}
        if kinds is not None:  # only by name: with every other fault, the last whole copy could be lost
            self._every |= {
                BIT_ROT: self._rot,
                LOST_DISK: self._lose_disk,
                TORN_DISK: self._tear_disk,
                OLDER_DISK: self._put_older_disk_back,
            }
        self._copies: dict[NodeProcess, StoredDirectory] = {}
        """Of disks, as they were some time ago."""
        self._are_kinds_given = kinds is not None
        self._kinds = self._draw() if kinds is None else [name for name in self._every if name in kinds]

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

    # Nodes

    async def _crash(self, process: NodeProcess) -> None:
        if process.host.is_up:
            process.host.crash()

    async def _cut_power(self, process: NodeProcess) -> None:
        if process.host.is_up:
            process.host.power_cut()

    async def _lose_disk(self, process: NodeProcess) -> None:
        """One at a time, and only while all others hold everything: what has no other copy may be lost."""
        if process.host.is_up and self._is_whole():
            self.happened[DISK_REPLACED] += 1
            process.host.power_cut()
            process.host.replace_disk()

    async def _tear_disk(self, process: NodeProcess) -> None:
        """Everybody crashes while all hold everything, and one disk has not kept the ends of its logs."""
        if not self._is_whole():
            self.happened[TORN_DISK] -= 1
            return
        self._crash_everybody()
        device = process.host.device
        logs = [path for path, _ in device.files() if path.endswith(layout.LOG) and METADATA_DIRECTORY not in path]
        for path in self._chance.sample(logs, self._chance.randint(0, len(logs))):
            device.tear(path, self._chance.randint(1, TORN_BYTES_MAX))
        device.has_lied = True

    async def _put_older_disk_back(self, process: NodeProcess) -> None:
        """Everybody crashes while all hold everything, and one comes back with a copy of its disk from an earlier
        crash. The first time that copy is made."""
        copy = self._copies.pop(process, None)
        if copy is None:
            self.happened[OLDER_DISK] -= 1
            await self._crash(process)
            self._copies[process] = process.host.device.copy()
        elif not self._is_whole():
            self.happened[OLDER_DISK] -= 1
            self._copies[process] = copy
        else:
            self._crash_everybody()
            process.host.device.put_back(copy)
            process.host.device.has_lied = True

    def _crash_everybody(self) -> None:
        for process in self._cluster.nodes:
            process.host.crash()

    def _is_whole(self) -> bool:
        """Whether every replica is in sync and every voter is the one that the others know."""
        present = [process.node for process in self._cluster.nodes if process.is_serving and process.node is not None]
        leaders = [node for node in present if node.is_controller]
        if len(present) < len(self._cluster.nodes) or not leaders:
            return False
        latest = max(leaders, key=lambda node: node.quorum.raft.term)
        image, voters = latest.image, latest.quorum.raft.membership.voters
        disks = {(node.node_id, node.directory) for node in image.nodes.values() if not node.is_fenced}
        return {tuple(voter) for voter in voters} == disks and all(
            set(partition.isr) == set(partition.replicas) and len(partition.isr) > 1
            for _, partition in partitions_of(image)
        )

    async def _cut_power_soon(self, process: NodeProcess) -> None:
        self._arm(process, self._chance.randint(*STEPS_AHEAD), again=self._chance.choice((0, 0, 1, 2)))

    def _arm(self, process: NodeProcess, steps_left: int, again: int) -> None:
        """Cut the power right before some step on the disk; `again` more times while the node recovers from it."""
        device = process.host.device

        def watcher(_operation: Operation, _path: str) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left > 0:
                return
            device.unwatch(watcher)
            name = process.host.life.name
            process.host.power_cut()
            if again:
                self.happened["power cut in recovery"] += 1
                self._arm(process, self._chance.randint(*STEPS_INTO_RECOVERY), again - 1)
            raise HostIsDown(f"{name} has lost its power")

        device.watch(watcher)

    async def _restart(self, process: NodeProcess) -> None:
        if process.is_serving:
            process.ask_to_stop()

    async def _pause(self, process: NodeProcess) -> None:
        if process.host.is_up and not process.host.life.is_suspended:
            await self._pause_for(process, self._chance.choice((0.1, 1.0, 12.0)) * self._chance.random())

    async def _pause_for(self, process: NodeProcess, seconds: float) -> None:
        life = process.host.life
        if life.is_over or life.is_suspended:
            return
        process.host.pause()
        await asyncio.sleep(seconds)
        if process.host.life is life and not life.is_over:
            process.host.resume()

    async def _jump_clock(self, process: NodeProcess) -> None:
        process.host.clock.skew_ms = self._chance.randint(-SKEW_MAX_MS, SKEW_MAX_MS)

    # Several nodes

    def _draw_several(self) -> list[NodeProcess]:
        """At least two, and all of them as often as not."""
        nodes = self._cluster.nodes
        return self._chance.sample(nodes, self._chance.choice((self._chance.randint(2, len(nodes)), len(nodes))))

    async def _crash_several(self, _: NodeProcess) -> None:
        for process in self._draw_several():
            await self._crash(process)

    async def _cut_power_of_several(self, _: NodeProcess) -> None:
        """At one instant, as when a rack goes dark; or one after the other, while the rest still counts on them."""
        gap_s = self._chance.choice((0.0, 0.0, 0.3, 3.0))
        for process in self._draw_several():
            await self._cut_power(process)
            await asyncio.sleep(gap_s * self._chance.random())

    async def _crash_controller(self, _: NodeProcess) -> None:
        for process in self._cluster.nodes:
            if process.node is not None and process.host.is_up and process.node.is_controller:
                process.host.crash()

    async def _pause_a_session(self, process: NodeProcess) -> None:
        await self._pause_for(process, SESSION_MS / 1000 * self._chance.uniform(0.7, 1.5))

    # Disks

    async def _fill_disk(self, process: NodeProcess) -> None:
        device = process.host.device
        device.capacity_bytes = device.used_bytes + self._chance.randint(*SPACE_LEFT_BYTES)
        await asyncio.sleep(self._chance.uniform(0.5, 8.0))
        device.capacity_bytes = None

    async def _fail_sync(self, process: NodeProcess) -> None:
        operation = self._chance.choice((Operation.SYNC, Operation.SYNC_DIRECTORY, Operation.SYNC_EVERYTHING))
        self._fail(process, operation, self._chance.randint(0, 20))

    async def _fail_write(self, process: NodeProcess) -> None:
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

    async def _rot(self, process: NodeProcess) -> None:
        if not rot(self._cluster, process, self._chance):
            self.happened["bit rot"] -= 1

    async def _spoil(self, process: NodeProcess) -> None:
        if not spoil(self._cluster, process, self._chance):
            self.happened[BAD_SECTOR] -= 1

    async def _slow_down(self, process: NodeProcess) -> None:
        threads = process.host.threads
        lane = self._chance.choice(LANES)
        threads.slowness[lane] = self._chance.choice((5.0, 50.0, 300.0))
        await asyncio.sleep(self._chance.uniform(0.5, 6.0))
        threads.slowness[lane] = process.flush_slowness if lane == "flush" else 1.0

    # The network

    async def _cut_connections(self, process: NodeProcess) -> None:
        for name in self._cluster.universe.hosts:
            if name != process.host.name and self._chance.random() < 0.7:
                self._cluster.universe.fabric.cut(process.host.name, name)

    async def _reject(self, process: NodeProcess) -> None:
        """A firewall answers for it, though it lives: to some of the other nodes or to all, and perhaps to itself."""
        fabric, name = self._cluster.universe.fabric, process.host.name
        is_mutual = self._chance.random() < 0.5
        for other in self._cluster.nodes:
            if other is not process and self._chance.random() < 0.8:
                fabric.reject(other.host.name, name)
                if is_mutual:
                    fabric.reject(name, other.host.name)
                fabric.cut(name, other.host.name)
        await self._heal_later(fabric)

    async def _partition(self, process: NodeProcess) -> None:
        fabric = self._cluster.universe.fabric
        others = [name for name in self._cluster.universe.hosts if name != process.host.name]
        cut_off = self._chance.sample(others, self._chance.randint(1, len(others)))
        self._divide([process.host.name], cut_off)
        await self._heal_later(fabric)

    def _divide(self, some: list[str], others: list[str]) -> None:
        """Nothing gets through between them, or one way only."""
        fabric = self._cluster.universe.fabric
        match self._chance.choice(("both", "in", "out")):
            case "both":
                fabric.partition(some, others)
            case "in":
                for one, other in product(some, others):
                    fabric.block(other, one)
            case _:
                for one, other in product(some, others):
                    fabric.block(one, other)

    async def _heal_later(self, fabric: Fabric) -> None:
        await asyncio.sleep(self._chance.uniform(0.1, 12.0))
        fabric.heal(break_fraction=self._chance.choice((0.0, 0.5, 1.0)))

    async def _halve(self, _: NodeProcess) -> None:
        """Nodes and clients, all are on one side or the other."""
        sides: tuple[list[str], list[str]] = ([], [])
        for name in self._cluster.universe.hosts:
            self._chance.choice(sides).append(name)
        self._divide(*sides)
        await self._heal_later(self._cluster.universe.fabric)

    async def _cut_off(self, process: NodeProcess) -> None:
        """From other nodes: clients still reach it, and it must not promise them anything."""
        others = [other.host.name for other in self._cluster.nodes if other is not process]
        self._divide([process.host.name], others)
        await self._heal_later(self._cluster.universe.fabric)
