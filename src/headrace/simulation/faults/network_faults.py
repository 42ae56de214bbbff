"""What befalls the network: connections break, hosts do not reach each other, or a firewall answers for one."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.fabric import Fabric

REJECTED = "rejected connections"


class NetworkFaults:
    def __init__(self, cluster: SimulatedCluster, chance: Random) -> None:
        self._cluster = cluster
        self._chance = chance

    async def cut_connections(self, process: NodeProcess) -> None:
        for name in self._cluster.universe.hosts:
            if name != process.host.name and self._chance.random() < 0.7:
                self._cluster.universe.fabric.cut(process.host.name, name)

    async def reject(self, process: NodeProcess) -> None:
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

    async def partition(self, process: NodeProcess) -> None:
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

    async def halve(self, _: NodeProcess) -> None:
        """Nodes and clients, all are on one side or the other."""
        sides: tuple[list[str], list[str]] = ([], [])
        for name in self._cluster.universe.hosts:
            self._chance.choice(sides).append(name)
        self._divide(*sides)
        await self._heal_later(self._cluster.universe.fabric)

    async def cut_off(self, process: NodeProcess) -> None:
        """From other nodes: clients still reach it, and it must not promise them anything."""
        others = [other.host.name for other in self._cluster.nodes if other is not process]
        self._divide([process.host.name], others)
        await self._heal_later(self._cluster.universe.fabric)
