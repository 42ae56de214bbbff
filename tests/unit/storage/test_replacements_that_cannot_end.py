"""What was cleaned takes its place only in the log that it was read from, and a swap that a full disk holds up is ended
before anything else happens to that log's files."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.model.names import TopicPartition
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.files import layout
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments.replacement import CleanedRun
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import CompactionSettings
from headrace.storage.store.log_store import LogStore
from headrace.wire.batches.records import encode_batch
from tests.unit.storage.compacted_logs import PLENTY, flush, held
from tests.unit.storage.small_logs import DIRECTORY, FIRST_MS, LOG_ID, SETTINGS, append

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.simulation.environment.device import Device
    from headrace.storage.compaction.job import Event
    from headrace.storage.log.partition_log import PartitionLog

COMPACTION = CompactionSettings(min_dirty_ratio=0)
LATER_MS = FIRST_MS + 100_000


def write(log: PartitionLog, *pairs: tuple[bytes, bytes | None]) -> None:
    """One batch for each."""
    for key, value in pairs:
        append(log, encode_batch([(FIRST_MS, key, value, ())], base_offset=log.next_offset, leader_epoch=0))


def seal(log: PartitionLog) -> None:
    log.roll()
    flush(log)


def cleaning_of(log: PartitionLog) -> Iterator[Event]:
    found = dirtiness_of(log, COMPACTION, log.flushed_offset, LATER_MS)
    return clean(log.disk, cleaning_job(log, COMPACTION, found, now_ms=LATER_MS, key_map_bytes=PLENTY))


def cleaned_of(log: PartitionLog) -> CleanedRun:
    (cleaned,) = [event for event in cleaning_of(log) if isinstance(event, CleanedRun)]
    return cleaned


def pairs_in(log: PartitionLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for _, records in held(log) for record in records]


def after_a_crash(device: Device, log: PartitionLog) -> PartitionLog:
    """As the next start finds it: what was written is there, for only the process has ended."""
    again, _ = open_log(LOG_ID, SegmentCache(SimulatedDisk(device)), SETTINGS, recovery_point=log.flushed_offset)
    return again


@pytest.fixture
def store(simulated: SimulatedDisk) -> LogStore:
    world = World(SystemClock(), simulated, SystemEntropy(), SystemNetwork(), SystemThreads())
    return LogStore(world, on_flushed=lambda _: None)


async def opened(store: LogStore) -> PartitionLog:
    await store.start()
    return await store.open_or_create(LOG_ID, TopicPartition("orders", LOG_ID.partition), SETTINGS)


async def with_a_swap_that_did_not_end(store: LogStore, device: Device) -> PartitionLog:
    """Offsets 0 to 3, cleaned and in place, but the disk was too full to remove the promise."""
    log = await opened(store)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    seal(log)
    device.fail(Operation.REMOVE, f"{DIRECTORY}/{layout.swap_name((0, 3))}", code=errno.ENOSPC)
    with pytest.raises(Refusal):
        await store.replacer.replace(log, cleaned_of(log), log.cuts)
    assert log.disk.exists(f"{DIRECTORY}/{layout.swap_name((0, 3))}")
    return log


async def test_what_was_cut_and_written_again_is_not_replaced_by_what_was_there_before(store: LogStore) -> None:
    """Its segments may begin and end where the old ones did."""
    log = await opened(store)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    seal(log)
    cleaned, cuts = cleaned_of(log), log.cuts
    await store.truncation.truncate(log, 0)
    write(log, (b"c", b"1"), (b"d", b"1"), (b"c", b"2"))
    seal(log)
    assert log.compaction.can_replace(cleaned), "by the offsets alone nobody could tell"
    assert not await store.replacer.replace(log, cleaned, cuts)
    assert pairs_in(log) == [(b"c", b"1"), (b"d", b"1"), (b"c", b"2")]
    assert not [name for name in log.disk.list(DIRECTORY) if name.endswith((layout.CLEANED, layout.SWAP))]


async def test_a_promise_is_gone_before_the_log_is_cut(store: LogStore, device: Device) -> None:
    """Else the next start would remove what was written since between the offsets that it names."""
    log = await with_a_swap_that_did_not_end(store, device)
    await store.truncation.truncate(log, 2)
    log.roll()
    write(log, (b"c", b"1"), (b"d", b"1"))
    flush(log)
    assert pairs_in(after_a_crash(device, log)) == [(b"b", b"1"), (b"c", b"1"), (b"d", b"1")]


async def test_a_promise_is_gone_before_the_log_is_cleaned_again(store: LogStore, device: Device) -> None:
    """Else the next start would put in place what the cleaner had written by then, half a file maybe."""
    log = await with_a_swap_that_did_not_end(store, device)
    write(log, (b"c", b"1"), (b"b", b"2"))
    seal(log)
    await store.replacer.settle(log)
    next(cleaning_of(log))  # it has begun to write, and no more comes of it
    assert pairs_in(after_a_crash(device, log)) == [(b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2")]


async def test_while_the_disk_is_full_nothing_else_happens_to_the_log(store: LogStore, device: Device) -> None:
    log = await with_a_swap_that_did_not_end(store, device)
    for change in (lambda: store.truncation.truncate(log, 2), lambda: store.replacer.settle(log)):
        device.fail(Operation.REMOVE, f"{DIRECTORY}/{layout.swap_name((0, 3))}", code=errno.ENOSPC)
        with pytest.raises(Refusal):
            await change()
    assert log.next_offset == 3
    await store.replacer.settle(log)
    assert not log.disk.exists(f"{DIRECTORY}/{layout.swap_name((0, 3))}")


async def test_a_swap_that_is_cancelled_during_its_promise_comes_to_its_end(store: LogStore, device: Device) -> None:
    """Else the log would be cut beside a promise that nobody remembers but the next start."""
    log = await opened(store)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    seal(log)
    loop = asyncio.get_running_loop()
    swapping = loop.create_task(store.replacer.replace(log, cleaned_of(log), log.cuts))
    promise = f"{DIRECTORY}/{layout.swap_name((0, 3))}"

    def cancel(operation: Operation, path: str) -> None:
        if (operation, path) == (Operation.CREATE, promise):
            loop.call_soon_threadsafe(swapping.cancel)

    device.watch(cancel)
    with pytest.raises(asyncio.CancelledError):
        await swapping
    device.unwatch(cancel)
    assert not log.disk.exists(promise)
    assert pairs_in(log) == [(b"b", b"1"), (b"a", b"2")]
    await store.truncation.truncate(log, 2)
    write(log, (b"c", b"1"), (b"d", b"1"))
    flush(log)
    assert pairs_in(after_a_crash(device, log)) == [(b"b", b"1"), (b"c", b"1"), (b"d", b"1")]
