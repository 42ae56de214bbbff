"""What `Threads`, `Clock`, `Entropy` and `TaskScope` promise, for real and in the simulator."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.tasks import TaskScope
from tests.contracts.runtimes import on_every_runtime

if TYPE_CHECKING:
    from headrace.runtime.world import World


@on_every_runtime
async def test_a_call_returns_its_result(world: World) -> None:
    assert await world.threads.run(lambda: 6 * 7) == 42
    assert await world.threads.run(lambda: "lane", lane="sync") == "lane"


@on_every_runtime
async def test_a_call_raises_its_error(world: World) -> None:
    def fail() -> None:
        raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        await world.threads.run(fail)
    assert await world.threads.run(lambda: 1) == 1


@on_every_runtime
async def test_a_lane_keeps_its_order(world: World) -> None:
    made: list[int] = []
    calls = [world.threads.run(partial(made.append, number), lane="sync") for number in range(50)]
    await asyncio.gather(*calls)
    assert made == list(range(50))


@on_every_runtime
async def test_general_calls_all_happen(world: World) -> None:
    made: list[int] = []
    await asyncio.gather(*(world.threads.run(partial(made.append, number)) for number in range(50)))
    assert sorted(made) == list(range(50))


@on_every_runtime
async def test_close_makes_the_calls_that_wait(world: World) -> None:
    made: list[int] = []
    calls = [asyncio.ensure_future(world.threads.run(partial(made.append, n), lane="sync")) for n in range(10)]
    await asyncio.sleep(0)
    world.threads.close()
    assert made == list(range(10))
    await asyncio.gather(*calls)
    with pytest.raises(RuntimeError):
        await world.threads.run(lambda: None)


@on_every_runtime
async def test_clocks_go_forward(world: World) -> None:
    wall_ms, monotonic_s = world.clock.wall_ms(), world.clock.monotonic_s()
    await asyncio.sleep(0.02)
    assert world.clock.monotonic_s() - monotonic_s >= 0.015  # the loop may wake a clock tick early
    assert world.clock.wall_ms() > wall_ms > 1_600_000_000_000


@on_every_runtime
async def test_chance(world: World) -> None:
    tokens = {world.entropy.token(16) for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {16}
    assert world.entropy.token(0) == b""
    fractions = [world.entropy.fraction() for _ in range(100)]
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert len(set(fractions)) > 90


@on_every_runtime
async def test_a_scope_ends_its_tasks_latest_first_and_reports_failures(world: World) -> None:
    failures: list[tuple[str, str]] = []
    ended: list[str] = []
    scope = TaskScope(lambda name, error: failures.append((name, str(error))))

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def fail() -> None:
        raise ValueError("out of order")

    for name in ("first", "second", "third"):
        scope.start(wait(name), name)
    scope.start(fail(), "failing")
    while not failures:
        await asyncio.sleep(0)
    assert failures == [("failing", "out of order")]
    assert len(scope) == 3
    await scope.close()
    assert ended == ["third", "second", "first"]
    assert len(scope) == 0
