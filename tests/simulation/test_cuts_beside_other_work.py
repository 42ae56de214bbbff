"""A log is cut while checkpoints, compaction, other cuts and the caches go on beside it."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.runtime.tasks import TaskScope
from headrace.simulation.environment.device import Operation
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.files import layout
from headrace.storage.segments.replacement import CleanedRun
from headrace.storage.settings import CompactionSettings
from headrace.wire.batches.header import read_header
from headrace.wire.batches.markers import Marker
from headrace.wire.batches.trimming import records_of, trim_batch
from tests.simulation.test_cuts_survive_power_cuts import CUT, ROOMY, live_twice, opened, write
from tests.unit.storage import test_compaction as compacting
from tests.unit.storage.compacted_logs import PLENTY, held, mark_gaps, stable_offset
from tests.unit.storage.small_logs import DIRECTORY, LOG_ID, append, batch_at, marker_at
from tests.unit.storage.test_aborted_transactions import EVERY, abort, aborted_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from headrace.runtime.world import World
    from headrace.simulation.environment.host import Host
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.store.log_store import LogStore

ABORTED_FILE = layout.stem(DIRECTORY, 0) + layout.ABORTED


def live(life: Callable[[Host], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        await host.start(life(host), "life")

    run(main, seed)


# ---- checkpoints


async def cut_beside_a_checkpoint(world: World) -> PartitionLog:
    """The checkpoint comes between the search and the cut, and writes of two aborted transactions."""
    store, log = await opened(world, ROOMY)
    abort(log)
    abort(log)
    await write(store, log, 40)
    checkpoint = asyncio.get_running_loop().create_task(store.checkpoints.write())
    await store.truncation.truncate(log, CUT)
    await checkpoint
    assert store.checkpoints.safe_offset(LOG_ID) == CUT
    assert len(world.disk.read_file(ABORTED_FILE)) == 68
    return log


@pytest.mark.parametrize("seed", range(8))
def test_what_a_checkpoint_writes_during_a_search_is_not_written_over(seed: int) -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")

        def kill_in_the_middle(operation: Operation, path: str) -> None:
            if operation is Operation.WRITE and path == ABORTED_FILE:
                host.crash()

        async def first_life() -> None:
            log = await cut_beside_a_checkpoint(host.world)
            host.device.watch(kill_in_the_middle)
            log.roll()
            host.crash()

        async def second_life() -> None:
            _, log = await opened(host.world, ROOMY)
            assert log.next_offset == CUT
            assert aborted_in(log) == EVERY[:2]

        host.start(first_life(), "first life")
        await host.is_down.wait()
        host.device.unwatch(kill_in_the_middle)
        host.restart()
        await host.start(second_life(), "second life")

    run(main, seed)


@pytest.mark.parametrize("seed", range(8))
def test_an_aborted_transaction_that_was_cut_off_does_not_come_back(seed: int) -> None:
    async def cut(world: World) -> None:
        store, log = await opened(world, ROOMY)
        for _ in range(3):
            abort(log)
        await store.flusher.flush([log])
        await store.checkpoints.write()
        await store.truncation.truncate(log, 4)
        log.roll()
        append(log, batch_at(4, epoch=1, producer_id=7, sequence=2, is_transactional=True))
        append(log, marker_at(5, 7, Marker(is_commit=True, coordinator_epoch=3), epoch=1))
        await store.flusher.flush([log])

    async def check(world: World) -> None:
        _, log = await opened(world, ROOMY)
        assert log.next_offset == 6
        assert aborted_in(log) == EVERY[:2], "what is at 4 was committed"

    for part in range(5):
        live_twice(cut, check, 5 * seed + part)


# ---- compaction


async def compacted_by_a_follower(world: World) -> tuple[LogStore, PartitionLog, list[CleanedRun]]:
    """A transaction whose marker is gone after the second of two swaps, and a snapshot from before the marker."""
    store, log = await opened(world, compacting.SETTINGS)

    def fill() -> None:
        compacting.write(log, (b"a", b"1"), producer_id=1, sequence=0, is_transactional=True)
        compacting.write(log, (b"z", b"1" * 800))
        compacting.seal(log)
        marker = marker_at(log.next_offset, 1, Marker(is_commit=True, coordinator_epoch=0))
        header = read_header(marker)
        body = records_of(memoryview(marker), header, inflate_max=1 << 20)
        append(log, trim_batch(header, body, b"\1", delete_horizon_ms=compacting.LATER_MS))
        compacting.write(log, (b"a", b"2" * 800))
        compacting.seal(log)
        mark_gaps(log)
        for _ in range(2):
            log.producers.expire(compacting.LATER_MS, 0)

    await world.threads.run(fill)
    log.high_watermark = log.flushed_offset
    settings = CompactionSettings(min_dirty_ratio=0, delete_retention_ms=10)
    now_ms = compacting.LATER_MS + 10

    def cleaned() -> list[CleanedRun]:
        found = dirtiness_of(log, settings, stable_offset(log), now_ms)
        job = cleaning_job(log, settings, found, now_ms=now_ms, key_map_bytes=PLENTY)
        return [event for event in clean(log.disk, job) if isinstance(event, CleanedRun)]

    return store, log, await world.threads.run(cleaned)


def check_no_transaction_is_open(log: PartitionLog) -> None:
    assert [header.base_offset for header, _ in held(log)] == [1]
    assert log.producers.transactions.first_unstable_offset < 0


@pytest.mark.parametrize("seed", range(8))
def test_a_search_waits_for_a_swap_to_end(seed: int) -> None:
    """A snapshot that the swap is about to remove knows an open transaction, whose marker is gone already."""

    async def life(host: Host) -> None:
        store, log, (first, second) = await compacted_by_a_follower(host.world)
        assert await store.replacer.replace(log, first, log.cuts)
        before = log.segments
        swapping = asyncio.get_running_loop().create_task(store.replacer.replace(log, second, log.cuts))
        while log.segments == before:
            await asyncio.sleep(0.00001)
        await store.truncation.truncate(log, 3)
        assert await swapping
        check_no_transaction_is_open(log)

    live(life, seed)


def test_a_swap_that_a_full_disk_did_not_let_end_is_ended_before_the_search() -> None:
    async def life(host: Host) -> None:
        store, log, (first, second) = await compacted_by_a_follower(host.world)
        assert await store.replacer.replace(log, first, log.cuts)
        host.device.fail(Operation.REMOVE, code=errno.ENOSPC)
        with pytest.raises(Refusal):
            await store.replacer.replace(log, second, log.cuts)
        await store.truncation.truncate(log, 3)
        check_no_transaction_is_open(log)

    live(life)


# ---- others


@pytest.mark.parametrize("seed", range(8))
def test_of_two_cuts_the_first_leaves_no_snapshot_behind(seed: int) -> None:
    async def life(host: Host) -> None:
        store, log = await opened(host.world, ROOMY)
        await write(store, log, 40, producer_id=1, sequence=0)
        second: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        await store.truncation.truncate(
            log, CUT, lambda: second.append(loop.create_task(store.truncation.truncate(log, 10)))
        )
        await second[0]
        assert log.next_offset == 10
        names = [name for name in host.world.disk.list(DIRECTORY) if name.endswith(layout.SNAPSHOT)]
        assert names == [f"{10:020d}{layout.SNAPSHOT}"]

    live(life, seed)


@pytest.mark.parametrize("is_cut", [True, False])
def test_who_is_refused_while_it_is_cancelled_ends(is_cut: bool) -> None:
    """As followers do: they try again until they are cancelled."""

    async def life(host: Host) -> None:
        store, log = await opened(host.world, ROOMY)
        await write(store, log, 40)
        tries = 0

        async def follow() -> None:
            nonlocal tries
            while True:
                tries += 1
                try:
                    if is_cut:
                        host.device.fail(Operation.READ, f"{DIRECTORY}/", code=errno.EMFILE)
                        await store.truncation.truncate(log, CUT)
                    else:
                        host.device.fail(Operation.WRITE, f"{DIRECTORY}/{layout.COMPACTED}", code=errno.ENOSPC)
                        await store.replacer.expect_gaps(log)
                except Refusal:
                    await asyncio.sleep(0.5)

        scope = TaskScope(lambda *_: None)
        scope.start(follow(), "follow")
        await asyncio.sleep(0.00001)
        await asyncio.wait_for(scope.close(), 30)
        assert tries == 1

    live(life)
