"""What waits for the device is done in threads: the simulated disk of a node refuses it on the loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.files import layout
from headrace.storage.store.log_store import LogStore
from tests.unit.storage.small_logs import DIRECTORY, LOG_ID, SETTINGS, append, batch_at, read_all
from tests.unit.storage.test_aborted_transactions import abort, aborted_in

if TYPE_CHECKING:
    from headrace.runtime.world import World
    from headrace.simulation.environment.device import Operation
    from headrace.simulation.environment.host import Host
    from headrace.storage.log.partition_log import PartitionLog

NAME = TopicPartition("orders", LOG_ID.partition)
ABORTED = [(7, 0, 1), (7, 2, 3)]
EPOCHS_FILE = f"{DIRECTORY}/{layout.EPOCHS}"


async def opened(world: World) -> tuple[LogStore, PartitionLog]:
    store = LogStore(world, on_flushed=lambda _: None)
    await store.start()
    return store, await store.open_or_create(LOG_ID, NAME, SETTINGS)


def aborted_files(world: World) -> list[bytes]:
    names = [name for name in world.disk.list(DIRECTORY) if name.endswith(layout.ABORTED)]
    return [world.disk.read_file(f"{DIRECTORY}/{name}") for name in names]


async def after_a_crash(host: Host) -> tuple[LogStore, PartitionLog]:
    """A log with aborted transactions of which no file tells: recovery has read them from the batches."""

    async def first_life() -> None:
        store, log = await opened(host.world)
        for _ in ABORTED:
            abort(log)
        await store.flusher.flush([log])

    await host.start(first_life(), "first life")
    host.crash()
    host.restart()
    return await opened(host.world)


async def after_damage(host: Host) -> tuple[LogStore, PartitionLog]:
    """The same, with a file of them that cannot be believed."""
    store, log = await after_a_crash(host)
    await store.checkpoints.write()
    host.crash()
    host.device.flip_bit(layout.stem(DIRECTORY, 0) + layout.ABORTED, 0)
    host.restart()
    store, log = await opened(host.world)
    assert aborted_in(log) == ABORTED
    return store, log


def test_a_loop_that_would_wait_for_the_device_is_found_out() -> None:
    async def main(universe: Universe) -> None:
        disk, threads = universe.host("node").world.disk, universe.host("node").world.threads
        waits = [
            partial(disk.replace_file, "vote", b"1"),
            partial(disk.sync_directory, ""),
            disk.sync_everything,
            partial(disk.open("log", create=True).warm, 0, 1),
        ]
        for wait in waits:
            with pytest.raises(AssertionError, match="waits for the device, on the loop"):
                wait()
            await threads.run(wait)
            with pytest.raises(AssertionError, match="waits for the device, on the loop"):
                wait()

    run(main, seed=1)


def test_a_checkpoint_writes_what_has_to_be_written_anew_in_a_thread() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await after_a_crash(host)
        assert aborted_files(host.world) == []
        await store.checkpoints.write()
        assert [len(content) for content in aborted_files(host.world)] == [68]
        assert host.world.disk.exists(EPOCHS_FILE)
        abort(log)
        await store.flusher.flush([log])
        await store.checkpoints.write()
        assert sum(map(len, aborted_files(host.world))) == 102, "what came later was added"

    run(main, seed=1)


def test_what_is_aborted_while_the_thread_writes_is_not_forgotten() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await after_a_crash(host)
        checkpoint = asyncio.get_running_loop().create_task(store.checkpoints.write())
        await asyncio.sleep(0)
        abort(log)
        log.roll()
        await checkpoint
        await store.flusher.flush([log])
        await store.checkpoints.write()
        host.power_cut()
        host.restart()
        _, log = await opened(host.world)
        assert aborted_in(log) == [*ABORTED, (7, 4, 5)]

    run(main, seed=1)


@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_checkpoint_mends_a_wrong_file_in_a_thread(is_sealed: bool, is_idle: bool) -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await after_damage(host)
        if is_sealed:
            log.roll()
        if not is_idle:
            append(log, batch_at(log.next_offset))
            await store.flusher.flush([log])
        assert aborted_in(log) == ABORTED
        checkpoint = asyncio.get_running_loop().create_task(store.checkpoints.write())
        await asyncio.sleep(0)
        if not is_idle:
            abort(log)
            log.roll()
        await checkpoint
        mended = aborted_files(host.world)[0]
        assert mended[0] == 0
        assert len(mended) in {68, 102}, "two transactions, and the one that was aborted meanwhile"
        host.power_cut()
        host.restart()
        _, log = await opened(host.world)
        assert aborted_in(log)[:2] == ABORTED

    run(main, seed=1)


def test_a_stop_on_a_full_disk_does_not_wait_for_it() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, _ = await after_damage(host)
        host.device.capacity_bytes = host.device.used_bytes
        await store.close()
        host.device.capacity_bytes = None
        _, log = await opened(host.world)
        assert aborted_in(log) == ABORTED

    run(main, seed=1)


def test_no_recovery_point_passes_what_found_no_room() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await after_a_crash(host)
        host.device.capacity_bytes = host.device.used_bytes
        await store.checkpoints.write()
        assert store.checkpoints.safe_offset(LOG_ID) == 0
        with pytest.raises(Refusal, match="the disk is full"):
            log.hints.save()
        host.device.capacity_bytes = None
        await store.checkpoints.write()
        assert store.checkpoints.safe_offset(LOG_ID) == log.next_offset

    run(main, seed=1)


def test_a_clean_stop_waits_in_a_thread_too() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await after_a_crash(host)
        append(log, batch_at(log.next_offset, epoch=4))
        await store.close()
        assert [len(content) for content in aborted_files(host.world)] == [68]
        assert host.world.disk.exists(EPOCHS_FILE)

    run(main, seed=1)


@pytest.mark.parametrize("offset", [0, 5, 29])
def test_a_log_is_cut_in_threads(offset: int) -> None:
    """It takes reading a segment or two, and files are cut and removed."""
    on_the_loop: list[tuple[Operation, str]] = []

    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await opened(host.world)
        for place in range(30):
            append(log, batch_at(place, producer_id=1, sequence=place))
        await store.flusher.flush([log])

        def note(operation: Operation, path: str) -> None:
            if not host.life.is_in_thread:
                on_the_loop.append((operation, path))

        host.device.watch(note)
        await store.truncation.truncate(log, offset)
        host.device.unwatch(note)
        assert log.next_offset == offset
        append(log, batch_at(offset, epoch=1))
        assert [header.base_offset for header in read_all(log)] == list(range(offset + 1))

    run(main, seed=1)
    assert on_the_loop == []


def test_a_log_is_marked_as_the_copy_of_a_compacted_one_in_a_thread() -> None:
    async def main(universe: Universe) -> None:
        host = universe.host("node")
        store, log = await opened(host.world)
        assert not log.may_have_gaps
        await store.replacer.expect_gaps(log)
        assert log.may_have_gaps
        assert host.world.disk.exists(f"{DIRECTORY}/{layout.COMPACTED}")

    run(main, seed=1)
