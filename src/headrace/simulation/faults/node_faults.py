"""What befalls processes: they crash, lose their power, stand still, or stop as they should; one or several at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.metadata.liveness import SESSION_MS
from headrace.simulation.environment.life import HostIsDown

if TYPE_CHECKING:
    from collections import Counter
    from random import Random

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.device import Operation

SKEW_MAX_MS = 3_000_000  # the node refuses records from more than an hour ahead, and should not refuse all of them
STEPS_AHEAD = (1, 300)  # of the disk, until a power cut in the middle of something
STEPS_INTO_RECOVERY = (1, 120)


class NodeFaults:
    def __init__(self, cluster: SimulatedCluster, chance: Random, happened: Counter[str]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._happened = happened

    async def crash(self, process: NodeProcess) -> None:
        if process.host.is_up:
            process.host.crash()

    async def cut_power(self, process: NodeProcess) -> None:
        if process.host.is_up:
            process.host.power_cut()

    def crash_everybody(self) -> None:
        for process in self._cluster.nodes:
            process.host.crash()

    async def cut_power_soon(self, process: NodeProcess) -> None:
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
                self._happened["power cut in recovery"] += 1
                self._arm(process, self._chance.randint(*STEPS_INTO_RECOVERY), again - 1)
            raise HostIsDown(f"{name} has lost its power")

        device.watch(watcher)

    async def restart(self, process: NodeProcess) -> None:
        if process.is_serving:
            process.ask_to_stop()

    async def pause(self, process: NodeProcess) -> None:
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

    async def jump_clock(self, process: NodeProcess) -> None:
        process.host.clock.skew_ms = self._chance.randint(-SKEW_MAX_MS, SKEW_MAX_MS)

    def _draw_several(self) -> list[NodeProcess]:
        """At least two, and all of them as often as not."""
        nodes = self._cluster.nodes
        return self._chance.sample(nodes, self._chance.choice((self._chance.randint(2, len(nodes)), len(nodes))))

    async def crash_several(self, _: NodeProcess) -> None:
        for process in self._draw_several():
            await self.crash(process)

    async def cut_power_of_several(self, _: NodeProcess) -> None:
        """At one instant, as when a rack goes dark; or one after the other, while the rest still counts on them."""
        gap_s = self._chance.choice((0.0, 0.0, 0.3, 3.0))
        for process in self._draw_several():
            await self.cut_power(process)
            await asyncio.sleep(gap_s * self._chance.random())

    async def crash_controller(self, _: NodeProcess) -> None:
        for process in self._cluster.nodes:
            if process.node is not None and process.host.is_up and process.node.is_controller:
                process.host.crash()

    async def pause_a_session(self, process: NodeProcess) -> None:
        await self._pause_for(process, SESSION_MS / 1000 * self._chance.uniform(0.7, 1.5))
