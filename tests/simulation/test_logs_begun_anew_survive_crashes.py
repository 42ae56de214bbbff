"""A log begins anew, and its node ends at one step of it or another. What was flushed later must be there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.model.names import LogId, TopicId, TopicPartition
from headrace.simulation.environment.life import HostIsDown
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.settings import LogSettings
from headrace.storage.store.log_store import LogStore
from tests.unit.storage.small_logs import append, batch_at, read_all

if TYPE_CHECKING:
    from headrace.runtime.world import World
    from headrace.simulation.environment.device import Operation
    from headrace.simulation.environment.host import Host
    from headrace.storage.log.partition_log import PartitionLog

LOG_ID, NAME = LogId(TopicId(bytes([9] * 16)), 0), TopicPartition("orders", 0)
SETTINGS = LogSettings(segment_bytes=1000, index_interval_bytes=150, retention_ms=None)
OLD_START, OLD_END = 15, 30
STEPS_MAX = 100
"""More than it takes on the disk to begin anew and to flush something."""


class Life:
    """What one process does, and what it has seen done when it ends."""

    def __init__(self) -> None:
        self.was_there = False
        self.found = (-1, -1)
        """Where the log began and ended when it was opened."""
        self.flushed = (-1, -1)
        """Where the last flush has left it."""
        self.has_begun = False
        self.is_done = False

    async def opened(self, world: World) -> tuple[LogStore, PartitionLog]:
        store = LogStore(world, on_flushed=lambda _: None)
        await store.start()
        self.was_there = store.log_ids() == [LOG_ID]
        log = await store.open_or_create(LOG_ID, NAME, SETTINGS)
        self.found = (log.start_offset, log.next_offset)
        assert [header.base_offset for header in read_all(log)] == list(range(*self.found))
        return store, log

    async def write(self, store: LogStore, log: PartitionLog, count: int) -> None:
        for offset in range(log.next_offset, log.next_offset + count):
            append(log, batch_at(offset))
        await store.flusher.flush([log])
        self.flushed = (log.start_offset, log.flushed_offset)

    async def fill(self, world: World) -> None:
        store, log = await self.opened(world)
        await self.write(store, log, OLD_END)
        log.high_watermark = OLD_END
        log.retention.advance_start(OLD_START)
        await store.checkpoints.write()

    async def begin_anew(self, world: World, start_offset: int, *, is_kept: bool) -> None:
        store, _ = await self.opened(world)
        self.has_begun = True
        log = await store.begin_anew(LOG_ID, NAME, SETTINGS, start_offset, is_kept=is_kept)
        await self.write(store, log, 3)
        self.is_done = True

    async def go_on(self, world: World) -> None:
        store, log = await self.opened(world)
        await self.write(store, log, 3)


def end_at(host: Host, step: int, *, is_power_cut: bool) -> None:
    """Right before the `step`-th next step on the disk."""
    if is_power_cut:
        host.power_cut_at(step)
        return
    steps_left = step

    def watcher(_operation: Operation, _path: str) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left == 0:
            host.device.unwatch(watcher)
            host.crash()
            raise HostIsDown(f"{host.name} was killed")

    host.device.watch(watcher)


@pytest.mark.parametrize("is_power_cut", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["removed", "kept"])
@pytest.mark.parametrize("start_offset", [0, 20, 50], ids=["below the old start", "inside the old log", "after it"])
def test_what_is_flushed_to_a_log_begun_anew_outlives_any_crash(
    start_offset: int, is_kept: bool, is_power_cut: bool
) -> None:
    async def main(universe: Universe, step: int) -> bool:
        host = universe.host("node")
        await host.start(Life().fill(host.world), "fill")
        host.crash()
        host.restart()

        life = Life()
        end_at(host, step, is_power_cut=is_power_cut)
        task = host.start(life.begin_anew(host.world, start_offset, is_kept=is_kept), "begin anew")
        while host.is_up and not task.done():
            await asyncio.sleep(0.01)
        if host.is_up:
            host.device.heal()
            host.power_cut() if is_power_cut else host.crash()
        host.restart()

        after = Life()
        await host.start(after.go_on(host.world), "go on")
        assert after.was_there, f"missing after a crash before step {step}"
        if life.flushed != (-1, -1):
            assert after.found == life.flushed == (start_offset, start_offset + 3)
        elif life.has_begun:
            old = (OLD_START, OLD_END)
            begun = {(start, end) for start in (OLD_START, start_offset) for end in range(start, start + 4)}
            assert after.found in {old, *begun}, "neither the old log nor a new one"
        host.crash()
        host.restart()

        last = Life()
        await host.start(last.go_on(host.world), "go on again")
        assert last.found == after.flushed, f"after a crash before step {step}"
        return life.is_done

    for step in range(1, STEPS_MAX):
        if run(lambda universe, step=step: main(universe, step), seed=step):
            return
    raise AssertionError("it has never come to its end")
