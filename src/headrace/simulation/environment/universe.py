"""Everything that one seed decides: one loop, one network, any number of hosts."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.simulation.environment.fabric import Fabric, Weather
from headrace.simulation.environment.host import Host
from headrace.simulation.environment.loop import VirtualLoop
from headrace.simulation.environment.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class Universe:
    def __init__(self, seed: int, *, limit_s: float = math.inf, weather: Weather | None = None) -> None:
        self.seed = seed
        self.loop = VirtualLoop(limit_s)
        self.trace = Trace(self.loop.time)
        self.fabric = Fabric(self.loop, self.random("fabric"), self.trace, weather)
        self.hosts: dict[str, Host] = {}

    def random(self, purpose: str) -> Random:
        """A source for each purpose, so that one more draw here does not shift every draw there."""
        return Random(f"{self.seed}/{purpose}")  # noqa: S311 - repeatable is what it must be

    def host(self, name: str) -> Host:
        """The host of this name; made, and up, when first asked for."""
        if name not in self.hosts:
            self.hosts[name] = Host(self, name)
        return self.hosts[name]


def run(
    main: Callable[[Universe], Coroutine[Any, Any, T]],
    seed: int,
    *,
    limit_s: float = math.inf,
    weather: Weather | None = None,
) -> T:
    """Run `main` in a universe of its own until it returns. A failed callback or forgotten task fails the run."""
    universe = Universe(seed, limit_s=limit_s, weather=weather)
    return universe.loop.finish(main(universe))
