from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.model.names import LogId, TopicId, TopicPartition
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Operation
from headrace.storage.files import checkpoints, layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.store.log_store import LogStore
from headrace.wire.batches.markers import Marker
from tests.contracts.runtimes import on_every_runtime
from tests.unit.storage.small_logs import FIRST_MS, SETTINGS, append, batch_at, marker_at, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.recovery.job import RecoveryReport

FIRST, SECOND, THIRD = (LogId(TopicId(bytes([7] * 16)), number) for number in range(3))
A_MOMENT_S = 0.2  # whatever can be done meanwhile is


class Stores:
    """One life of a store after another on the same disk."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reports: list[RecoveryReport] = []

    @asynccontextmanager
    async def life(self, *, is_clean: bool = True) -> AsyncIterator[LogStore]:
        store = LogStore(self.world, on_flushed=lambda _: None, on_recovered=self.reports.append, open_files=8)
        await store.start()
        running = asyncio.get_running_loop().create_task(store.run())
        yield store
        running.cancel()
        if is_clean:
            await store.close()


async def opened(store: LogStore, log_id: LogId) -> PartitionLog:
    return await store.open_or_create(log_id, TopicPartition("orders", log_id.partition), SETTINGS)


async def filled(store: LogStore, log_id: LogId, count: int = 30) -> PartitionLog:
    log = await opened(store, log_id)
    for offset in range(log.next_offset, log.next_offset + count):
        append(log, batch_at(offset, producer_id=1, sequence=offset))
    store.flusher.want(log, is_urgent=True)
    while log.flushed_offset < log.next_offset:
        await asyncio.sleep(0.001)
    log.high_watermark = log.next_offset
    return log


@on_every_runtime
async def test_logs_come_back_after_a_clean_shutdown(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        for log_id in (FIRST, SECOND):
            await filled(store, log_id)
        assert store.log_ids() == []
    assert world.disk.exists(checkpoints.CLEAN_SHUTDOWN)
    async with stores.life() as store:
        assert not world.disk.exists(checkpoints.CLEAN_SHUTDOWN)
        assert store.log_ids() == [FIRST, SECOND]
        log = await filled(store, FIRST, 3)
        assert [header.base_offset for header in read_all(log)] == list(range(33))
        assert store.log_ids() == [SECOND]
        producer = log.producers.get(1)
        assert producer is not None
        assert producer.last_sequence == 32
    assert [report.verified_batches for report in stores.reports] == [0]
    assert not world.disk.exists(checkpoints.CLEAN_SHUTDOWN), "a log that was not opened was not closed in order"


@on_every_runtime
async def test_after_a_crash_only_what_follows_the_checkpoint_is_verified(world: World) -> None:
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST, 20)
        await store.checkpoints.write()
        append(log, batch_at(20), batch_at(21))
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert (log.next_offset, log.flushed_offset) == (22, 22)
    (report,) = stores.reports
    assert report.verified_batches == 2


@on_every_runtime
async def test_a_deleted_log_is_gone_for_good(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        log = await filled(store, FIRST)
        await filled(store, SECOND)
        await store.checkpoints.write()
        piece = log.read(0, 1 << 20, 30, at_least_one=True)
        assert piece is not None
        await store.delete(FIRST)
        assert log.is_closed
        assert not world.disk.exists(layout.directory_of(FIRST))
        assert len(piece.read()) == piece.size, "a slice on its way out still gets there"
        piece.release()
        await store.checkpoints.write()
    async with stores.life() as store:
        assert store.log_ids() == [SECOND]
        await store.delete(SECOND)
        await store.delete(THIRD)
        assert store.log_ids() == []
    assert checkpoints.read_offsets(world.disk, checkpoints.RECOVERY_POINTS) == {}


@on_every_runtime
async def test_half_deleted_logs_are_removed_at_the_start(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
    directory = layout.directory_of(FIRST)
    world.disk.rename(directory, directory + layout.DELETED)
    async with stores.life() as store:
        assert store.log_ids() == []
        assert not world.disk.exists(directory + layout.DELETED)


@on_every_runtime
async def test_the_start_of_a_log_survives_a_crash_before_its_files_are_removed(world: World) -> None:
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        first = log.segments[0]
        log.retention.advance_start(25)
        await store.checkpoints.write_start_offsets()
        assert log.retention.delete_expired(FIRST_MS)
        assert world.disk.exists(first.log_path)
    async with stores.life(is_clean=False) as store:
        log = await opened(store, FIRST)
        assert log.start_offset == 25
        assert not world.disk.exists(first.log_path)


@on_every_runtime
async def test_garbage_goes_after_its_start_is_stored(world: World) -> None:
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        log.settings = replace(SETTINGS, retention_ms=0)
        dropped = log.segments
        assert len(log.retention.delete_expired(FIRST_MS + 1_000_000)) == len(dropped)
        await store.checkpoints.remove_garbage()
        assert not any(world.disk.exists(path) for segment in dropped for path in segment.paths[:3])
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert (log.start_offset, log.next_offset) == (30, 30)


@on_every_runtime
async def test_a_cut_lowers_the_recovery_point(world: World) -> None:
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        await store.checkpoints.write()
        await store.truncation.truncate(log, 12)
        assert log.next_offset == 12
        append(log, batch_at(12, epoch=1))
    assert checkpoints.read_offsets(world.disk, checkpoints.RECOVERY_POINTS) == {FIRST: 12}
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert log.next_offset == 13
    assert [report.verified_batches for report in stores.reports] == [1]


@on_every_runtime
async def test_a_damaged_log_leaves_the_others_alone_and_is_tried_again(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
        log = await filled(store, SECOND)
    path = log.segments[-1].log_path
    content = bytearray(world.disk.read_file(path))
    content[16] ^= 1
    world.disk.write_file(path, bytes(content))
    for _ in range(2):
        async with stores.life() as store:
            await opened(store, FIRST)
            with pytest.raises(DamagedLog):
                await opened(store, SECOND)
            assert store.log_ids() == [SECOND]


@on_every_runtime
async def test_a_log_whose_directory_was_removed_gives_out_no_offset_twice(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
    world.disk.remove_directory(layout.directory_of(FIRST))
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert (log.start_offset, log.next_offset) == (30, 30)


@on_every_runtime
async def test_foreign_directories_are_left_alone(world: World) -> None:
    world.disk.make_directory("topics/lost+found")
    world.disk.make_directory("topics/orders-0")
    async with Stores(world).life() as store:
        assert store.log_ids() == []
    assert world.disk.exists("topics/lost+found")


async def test_a_stop_on_a_full_disk_promises_nothing_that_it_could_not_save(simulated: SimulatedDisk) -> None:
    """Which transactions were aborted is in memory until a checkpoint. A start must then look for it in the batches."""
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    stores = Stores(world)
    async with stores.life() as store:
        log = await filled(store, FIRST)
        abort = Marker(is_commit=False, coordinator_epoch=0)
        append(log, batch_at(30, producer_id=7, sequence=0, is_transactional=True), marker_at(31, 7, abort))
        path = log.segments[-1].stem + layout.ABORTED
        simulated.device.fail(Operation.CREATE, path, code=errno.ENOSPC)  # and a moment later there is room again
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert [item.producer_id for item in log.transaction_indexes.aborted_between(0, 32)] == [7]


@on_every_runtime
async def test_a_damaged_copy_is_kept_until_its_successor_is_whole(world: World) -> None:
    stores = Stores(world)
    directory = layout.directory_of(FIRST)
    async with stores.life() as store:
        await filled(store, FIRST)
        anew = await store.begin_anew(FIRST, TopicPartition("orders", 0), SETTINGS, 7, is_kept=True)
        assert (anew.start_offset, anew.next_offset) == (7, 7)
        append(anew, batch_at(7))
    async with stores.life() as store:
        assert list(store.set_aside_damaged) == [FIRST]
        assert store.log_ids() == [FIRST]
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == [7]
        assert world.disk.list(directory + layout.DAMAGED)
        await store.drop_damaged(FIRST)
        assert not world.disk.exists(directory + layout.DAMAGED)
    async with stores.life() as store:
        assert not store.set_aside_damaged


@on_every_runtime
async def test_a_deleted_log_takes_its_damaged_copy_along(world: World) -> None:
    async with Stores(world).life() as store:
        await filled(store, FIRST)
        await store.begin_anew(FIRST, TopicPartition("orders", 0), SETTINGS, 0, is_kept=True)
        await store.delete(FIRST)
        assert world.disk.list(layout.TOPICS) == []


@on_every_runtime
async def test_a_log_that_comes_back_is_not_taken_for_the_one_that_was_deleted(world: World) -> None:
    """A replica that moves away and back. Where it began before, and how far it was safe, may still be stored."""
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        log.retention.advance_start(25)
        await store.checkpoints.write()
        await store.delete(FIRST)
        log = await filled(store, FIRST, 3)
        held = [header.base_offset for header in read_all(log)]
        assert len(held) == 3
    async with stores.life() as store:
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == held


@on_every_runtime
async def test_a_log_that_others_have_is_not_expected_to_hold_what_it_held(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
    world.disk.remove_directory(layout.directory_of(FIRST))
    async with stores.life(is_clean=False) as store:
        store.others_have(FIRST)
        await filled(store, FIRST, 3)
    async with stores.life() as store:
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == [0, 1, 2]


async def test_a_log_is_not_created_while_an_earlier_one_would_vouch_for_it(simulated: SimulatedDisk) -> None:
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    async with Stores(world).life() as store:
        await filled(store, FIRST)
        await store.checkpoints.write()
        await store.delete(FIRST)
        simulated.device.fail(Operation.CREATE, checkpoints.RECOVERY_POINTS, code=errno.ENOSPC)
        with pytest.raises(Refusal, match="disk is full"):
            await opened(store, FIRST)
        assert not simulated.exists(layout.directory_of(FIRST))
        assert (await opened(store, FIRST)).next_offset == 0


@on_every_runtime
async def test_a_log_whose_directory_was_removed_keeps_what_it_was_given_since(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
    world.disk.remove_directory(layout.directory_of(FIRST))
    async with stores.life(is_clean=False) as store:
        await store.prepare({FIRST: (TopicPartition("orders", 0), SETTINGS)})
        await store.checkpoints.write()  # before anybody has asked for it
        assert (await filled(store, FIRST, 3)).start_offset == 30
    async with stores.life() as store:
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == [30, 31, 32]


@on_every_runtime
async def test_a_checkpoint_remembers_how_far_a_missing_log_was_safe(world: World) -> None:
    """Nobody may have asked for it for minutes, and consumers have seen its offsets all the same."""
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
    world.disk.remove_directory(layout.directory_of(FIRST))
    async with stores.life(is_clean=False) as store:
        await filled(store, SECOND)
        await store.checkpoints.write()
        assert store.checkpoints.safe_offset(FIRST) == 30
    async with stores.life() as store:
        assert (await opened(store, FIRST)).next_offset == 30


@on_every_runtime
async def test_a_log_that_was_set_aside_is_not_missed(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
        await filled(store, SECOND)
    async with stores.life(is_clean=False) as store:
        await store.set_aside(FIRST)
        await filled(store, SECOND, 1)
        await store.checkpoints.write()
    assert checkpoints.read_offsets(world.disk, checkpoints.RECOVERY_POINTS) == {SECOND: 31}


async def test_a_log_is_not_cut_below_its_start_unless_that_can_be_remembered(simulated: SimulatedDisk) -> None:
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        log.retention.advance_start(25)
        await store.checkpoints.write_start_offsets()
        simulated.device.fail(Operation.CREATE, checkpoints.START_OFFSETS, code=errno.ENOSPC)
        with pytest.raises(Refusal, match="disk is full"):
            await store.truncation.truncate(log, 10)
        await store.truncation.truncate(log, 10)
        append(log, batch_at(10))
        await store.flusher.flush([log])
    async with stores.life() as store:
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == [10]


@pytest.mark.parametrize("path", [checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS])
async def test_a_log_does_not_begin_anew_unless_that_can_be_remembered(simulated: SimulatedDisk, path: str) -> None:
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    stores = Stores(world)
    name = TopicPartition("orders", 0)
    async with stores.life(is_clean=False) as store:
        await filled(store, FIRST)
        simulated.device.fail(Operation.CREATE, path, code=errno.ENOSPC)
        with pytest.raises(Refusal, match="disk is full"):
            await store.begin_anew(FIRST, name, SETTINGS, 50)
        log = await store.begin_anew(FIRST, name, SETTINGS, 50)
        append(log, batch_at(50))
        await store.flusher.flush([log])
    async with stores.life() as store:
        assert [header.base_offset for header in read_all(await opened(store, FIRST))] == [50]


@on_every_runtime
async def test_a_log_that_is_deleted_during_a_checkpoint_leaves_no_recovery_point(world: World) -> None:
    """Its replica may come back to this node, and must not begin where the one before ended."""
    async with Stores(world).life() as store:
        await filled(store, FIRST)
        checkpointing = asyncio.get_running_loop().create_task(store.checkpoints.write())
        await asyncio.sleep(0)
        await store.delete(FIRST)
        await checkpointing
        again = await opened(store, FIRST)
        assert (again.start_offset, again.next_offset) == (0, 0)


@on_every_runtime
async def test_a_log_that_begins_anew_during_a_checkpoint_does_not_inherit_a_recovery_point(world: World) -> None:
    """What is written into it is not verified after a crash as far as that, though it was never flushed."""
    stores = Stores(world)
    async with stores.life() as store:
        await filled(store, FIRST)
        loop = asyncio.get_running_loop()
        async with store.replacer.rewriting:  # as while segments of another log are swapped
            anew = loop.create_task(store.begin_anew(FIRST, TopicPartition("orders", 0), SETTINGS, 0))
            await asyncio.sleep(A_MOMENT_S)
            checkpointing = loop.create_task(store.checkpoints.write())
            await asyncio.sleep(0)
        await anew
        await checkpointing
        assert checkpoints.read_offsets(world.disk, checkpoints.RECOVERY_POINTS).get(FIRST, 0) == 0


class HeldUpDisk(SystemDisk):
    """Its first recovery points wait, in their thread, until they may go on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_held_up = threading.Event()
        self.may_go_on = threading.Event()

    def replace_file(self, path: str, content: bytes) -> None:
        if path == checkpoints.RECOVERY_POINTS and not self.is_held_up.is_set():
            self.is_held_up.set()
            self.may_go_on.wait()
        super().replace_file(path, content)


class SlowlyRemovingDisk(HeldUpDisk):
    def replace_file(self, path: str, content: bytes) -> None:
        SystemDisk.replace_file(self, path, content)

    def remove_directory(self, path: str) -> None:
        self.is_held_up.set()
        self.may_go_on.wait()
        super().remove_directory(path)


async def test_a_stop_waits_for_a_log_that_begins_anew(tmp_path: Path) -> None:
    """The old one is gone: without the new one the log would be missing."""
    disk = SlowlyRemovingDisk(tmp_path)
    world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        await filled(store, FIRST)
        name = TopicPartition("orders", 0)
        beginning = asyncio.get_running_loop().create_task(store.begin_anew(FIRST, name, SETTINGS, 50))
        while not disk.is_held_up.is_set():
            await asyncio.sleep(0.001)
        beginning.cancel()
        await asyncio.sleep(A_MOMENT_S)
        disk.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert disk.list(layout.directory_of(FIRST))
    async with stores.life() as store:
        assert (await opened(store, FIRST)).start_offset == 50
    disk.close()


@on_every_runtime
async def test_an_empty_log_does_not_take_the_place_of_the_damaged_copy_that_is_kept(world: World) -> None:
    name, kept = TopicPartition("orders", 0), layout.directory_of(FIRST) + layout.DAMAGED
    async with Stores(world).life() as store:
        await filled(store, FIRST)
        await store.begin_anew(FIRST, name, SETTINGS, 7, is_kept=True)
        held = world.disk.list(kept)
        await store.begin_anew(FIRST, name, SETTINGS, 9, is_kept=True)
        assert world.disk.list(kept) == held


async def test_a_stop_waits_for_the_checkpoint_that_it_interrupts(tmp_path: Path) -> None:
    """Its thread goes on: what it writes must not come after what the stop writes."""
    disk = HeldUpDisk(tmp_path)
    world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
    async with Stores(world).life(is_clean=False) as store:
        log = await filled(store, FIRST, 10)
        checkpoint = asyncio.get_running_loop().create_task(store.checkpoints.write())
        while not disk.is_held_up.is_set():
            await asyncio.sleep(0.001)
        checkpoint.cancel()
        append(log, batch_at(10, producer_id=1, sequence=10))
        closing = asyncio.get_running_loop().create_task(store.close())
        await asyncio.sleep(A_MOMENT_S)
        disk.may_go_on.set()
        await closing
    world.threads.close()
    assert checkpoint.cancelled()
    assert checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS) == {FIRST: 11}
    disk.close()


@on_every_runtime
async def test_who_wrote_what_was_deleted_is_known_after_a_crash(world: World) -> None:
    """A replica that ends where the log begins is compared by it. To say that an earlier leader had written it would
    have the replica cut off what is committed."""
    stores = Stores(world)
    async with stores.life(is_clean=False) as store:
        log = await filled(store, FIRST)
        await store.checkpoints.write()
        append(log, batch_at(30, epoch=7))
        log.high_watermark = log.next_offset
        log.settings = replace(SETTINGS, retention_ms=0)
        assert log.retention.delete_expired(FIRST_MS + 1_000_000)
        await store.checkpoints.remove_garbage()
    async with stores.life() as store:
        log = await opened(store, FIRST)
        assert (log.start_offset, log.next_offset) == (31, 31)
        assert log.epochs.end_offset_for(7, 31) == (7, 31)


async def test_retention_frees_a_disk_without_a_free_byte(simulated: SimulatedDisk) -> None:
    device = simulated.device
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    async with Stores(world).life() as store:
        log = await filled(store, FIRST, 100)
        log.settings = replace(SETTINGS, retention_ms=0)
        assert len(log.retention.delete_expired(FIRST_MS + 1_000_000)) > 5
        device.capacity_bytes = device.used_bytes
        before = world.disk.free_bytes()
        await store.checkpoints.remove_garbage()
        assert world.disk.free_bytes() > before
        assert not log.retention.take_garbage()
        assert checkpoints.read_offsets(world.disk, checkpoints.START_OFFSETS)[FIRST] == log.start_offset
        device.capacity_bytes = None


@on_every_runtime
async def test_logs_begin_where_their_files_do_if_somebody_took_the_checkpoints_away(world: World) -> None:
    stores = Stores(world)
    async with stores.life() as store:
        log = await filled(store, FIRST, 60)
        log.retention.advance_start(25)
        assert log.retention.delete_expired(FIRST_MS)
        await store.checkpoints.remove_garbage()
        first = log.segments[0].base_offset
        assert first > 0
    for path in (checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS):
        world.disk.remove(path)
    for _ in range(2):
        async with stores.life(is_clean=False) as store:
            log = await opened(store, FIRST)
            assert (log.start_offset, log.next_offset) == (first, 60)
