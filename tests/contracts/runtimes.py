"""The same scene on the real runtime and in the simulator: what production code may rely on must hold in both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.universe import Universe, run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Scene = Callable[[World], Coroutine[Any, Any, None]]

SEEDS = (1, 2, 3)  # the simulator has many moods; a contract holds in each


def on_every_runtime(scene: Scene) -> Callable[[Callable[[Scene, Path], None], Path], None]:
    """Turn `async def test_x(world)` into a test for each runtime."""

    @pytest.mark.parametrize(
        "play", [play_for_real, *map(simulation, SEEDS)], ids=["real", *map("seed-{}".format, SEEDS)]
    )
    def test(play: Callable[[Scene, Path], None], tmp_path: Path) -> None:
        play(scene, tmp_path)

    test.__name__ = scene.__name__
    test.__doc__ = scene.__doc__
    return test


def play_for_real(scene: Scene, root: Path) -> None:
    disk = SystemDisk(root)
    threads = SystemThreads()
    try:
        asyncio.run(scene(World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)))
    finally:
        threads.close()
        disk.close()


def simulation(seed: int) -> Callable[[Scene, Path], None]:
    def play(scene: Scene, _root: Path) -> None:
        async def main(universe: Universe) -> None:
            host = universe.host("node")
            await host.start(scene(host.world), "scene")

        run(main, seed)

    return play
