from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import DiskFailure
from headrace.model.names import LogId, TopicId
from headrace.simulation.environment.device import Operation
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.store.flusher import LANE, LINGER_S, SINGLE_SYNCS_MAX, SLOW_S, Flusher
from tests.unit.storage.small_logs import SETTINGS, append, batch_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.simulation.environment.device import Device
    from headrace.storage.log.partition_log import PartitionLog


class Scene:
    """A flusher that runs, and logs to flush."""

    def __init__(self, universe: Universe, log_count: int) -> None:
        host = universe.host("node")
        self.device: Device = host.device
        self.world = host.world
        self.flushed: list[PartitionLog] = []
        self.flusher = Flusher(host.world, on_flushed=self.flushed.append)
        handles = SegmentCache(host.world.disk)
        self.logs = [create_log(LogId(TopicId(bytes(16)), n), "orders", handles, SETTINGS) for n in range(log_count)]
        for log in self.logs:
            append(log, batch_at(0))
        self.syncs: list[Operation] = []
        self.device.watch(lambda operation, path: self.syncs.append(operation) if "sync" in operation else None)
        self.running = asyncio.get_running_loop().create_task(self.flusher.run())


def test_a_disk_that_takes_long_is_told_of() -> None:
    took_s: list[float] = []

    async def main(universe: Universe) -> None:
        host = universe.host("node")
        flusher = Flusher(host.world, on_flushed=lambda _: None, on_slow=took_s.append)
        log = create_log(LogId(TopicId(bytes(16)), 0), "orders", SegmentCache(host.world.disk), SETTINGS)
        append(log, batch_at(0))
        await flusher.flush([log])
        assert took_s == []
        host.threads.slowness[LANE] = 1e6
        append(log, batch_at(1))
        await flusher.flush([log])

    run(main, seed=1)
    assert len(took_s) == 1
    assert took_s[0] >= SLOW_S


def play(act: Callable[[Scene], Awaitable[None]], log_count: int = 1, seed: int = 1) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe, log_count)
        await act(scene)
        if scene.running.done():
            scene.running.result()
        scene.running.cancel()

    run(main, seed)


def test_an_urgent_wish_is_flushed_at_once() -> None:
    async def act(scene: Scene) -> None:
        scene.flusher.want(scene.logs[0], is_urgent=True)
        await asyncio.sleep(LINGER_S * 0.9)
        assert scene.flushed == scene.logs
        assert scene.logs[0].flushed_offset == 1
        assert not scene.logs[0].flushing.is_dirty

    play(act)


def test_a_patient_wish_waits_for_others_but_not_for_ever() -> None:
    async def act(scene: Scene) -> None:
        scene.flusher.want(scene.logs[0], is_urgent=False)
        await asyncio.sleep(LINGER_S * 0.9)
        assert scene.flushed == []
        scene.flusher.want(scene.logs[1], is_urgent=False)
        await asyncio.sleep(LINGER_S)
        assert scene.flushed == scene.logs

    play(act, log_count=2)


def test_an_urgent_wish_takes_the_patient_ones_along() -> None:
    async def act(scene: Scene) -> None:
        scene.flusher.want(scene.logs[0], is_urgent=False)
        scene.flusher.want(scene.logs[1], is_urgent=True)
        await asyncio.sleep(LINGER_S * 0.9)
        assert scene.flushed == scene.logs

    play(act, log_count=2)


@pytest.mark.parametrize("log_count", [1, 4, 5, 40])
def test_many_files_are_synced_as_one(log_count: int) -> None:
    async def act(scene: Scene) -> None:
        for log in scene.logs:
            scene.flusher.want(log, is_urgent=True)
        await asyncio.sleep(1)
        assert scene.flushed == scene.logs
        if 4 * log_count > SINGLE_SYNCS_MAX:  # a file and, the first time, three directories each
            assert scene.syncs == [Operation.SYNC_EVERYTHING]
        else:
            assert scene.syncs.count(Operation.SYNC) == log_count
            assert scene.syncs.count(Operation.SYNC_DIRECTORY) == 3 * log_count

    play(act, log_count)


def test_what_comes_during_a_round_is_for_the_next() -> None:
    async def act(scene: Scene) -> None:
        (log,) = scene.logs
        scene.flusher.want(log, is_urgent=True)
        while not scene.syncs:
            await asyncio.sleep(0.0001)
        append(log, batch_at(1))
        scene.flusher.want(log, is_urgent=True)
        await asyncio.sleep(1)
        assert log.flushed_offset == 2
        assert scene.flushed == [log, log]

    for seed in range(20):
        play(act, seed=seed)


def test_a_failed_sync_is_final() -> None:
    async def act(scene: Scene) -> None:
        scene.device.fail(Operation.SYNC)
        scene.flusher.want(scene.logs[0], is_urgent=True)
        await asyncio.sleep(1)
        assert scene.flushed == []
        assert scene.logs[0].flushed_offset == 0

    with pytest.raises(DiskFailure, match="unknown"):
        play(act)


def test_what_waits_behind_a_failed_sync_is_not_synced() -> None:
    """The failed one has marked all pages clean: the next would succeed, and prove nothing."""

    async def act(scene: Scene) -> None:
        scene.device.fail(Operation.SYNC_EVERYTHING)
        everything = asyncio.get_running_loop().create_task(scene.flusher.sync_everything())
        await asyncio.sleep(0)
        scene.flusher.want(scene.logs[0], is_urgent=True)
        with pytest.raises(DiskFailure):
            await everything
        await asyncio.sleep(1)
        assert scene.flushed == []
        assert scene.logs[0].flushed_offset == 0

    with pytest.raises(DiskFailure):
        play(act)


def test_a_log_may_be_closed_and_deleted_during_a_round() -> None:
    async def act(scene: Scene) -> None:
        doomed, other = scene.logs
        for log in scene.logs:
            scene.flusher.want(log, is_urgent=True)
        while not scene.syncs:
            await asyncio.sleep(0.0001)
        doomed.close(is_clean=False)
        doomed.disk.remove_directory(doomed.directory)
        await asyncio.sleep(1)
        assert scene.flushed[-1] is other
        assert doomed not in scene.flushed
        scene.flusher.want(doomed, is_urgent=True)
        await asyncio.sleep(1)

    for seed in range(20):
        play(act, log_count=2, seed=seed)


def test_what_is_left_of_a_log_that_is_cut_during_a_round_is_flushed_too() -> None:
    """Nothing else may ever be written to it, and a leader waits to hear that this is safe."""

    async def act(scene: Scene) -> None:
        (log,) = scene.logs
        append(log, batch_at(1))
        scene.flusher.want(log, is_urgent=True)
        while not scene.syncs:
            await asyncio.sleep(0.0001)
        search = log.begin_truncation(1)
        assert search is not None
        files = log.apply_truncation(search.find())
        assert files is not None
        await scene.world.threads.run(files.write, lane=LANE)
        log.finish_truncation(files)
        await asyncio.sleep(1)
        assert (log.flushed_offset, log.next_offset) == (1, 1)
        assert scene.flushed[-1] is log

    for seed in range(20):
        play(act, seed=seed)
