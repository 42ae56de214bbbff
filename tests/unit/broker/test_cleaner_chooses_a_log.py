"""The cleaner looks at one log after the other, and gives way between them. What it chose may have changed by then, or
may wait for something else to end first."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.deletion import delete_records
from headrace.broker.partitions.log_settings import log_settings
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
from headrace.broker.partitions.writing import AppendStage
from headrace.broker.replicas.cleaner import LogCleaner
from headrace.metadata.configs.settings import DEFAULT_NODE_SETTINGS, DEFAULT_TOPIC_SETTINGS
from headrace.model.names import Epoch, LogId, NodeId, Offset, TopicId, TopicPartition
from headrace.replication.replica import Replica
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.compaction.workers import InThread
from headrace.storage.files import layout
from headrace.storage.store.log_store import LogStore
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from headrace.storage.compaction.job import CleaningJob, Event
    from headrace.storage.log.partition_log import PartitionLog

NODE = NodeId(1)
TOPIC_ID = TopicId(bytes([7] * 16))
SETTINGS = replace(DEFAULT_TOPIC_SETTINGS, cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.1)


class HurriedClock(SystemClock):
    """So much time goes by between any two looks at it that whoever gives way now and then does so each time."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 1
        return self._now_s


async def _partition(world: World, store: LogStore, index: int) -> Partition:
    """With one sealed segment, in which one record hides the other."""
    name = TopicPartition("orders", index)
    log = await store.open_or_create(LogId(TOPIC_ID, index), name, log_settings(SETTINGS))
    ends = {"log_start": Offset(0), "written": Offset(0), "flushed": Offset(0), "high_watermark": Offset(0)}
    stage = AppendStage(Counters(), lambda _: None, lambda _: None)
    partition = Partition(name, log, Replica(NODE, **ends), stage=stage, flusher=store.flusher, clock=world.clock)
    partition.configure(SETTINGS)
    partition.set_leased(True)
    partition.lead(Epoch(1), [NODE], [NODE])
    for value in (b"1", b"2"):
        partition.writer.append(encode_batch([(world.clock.wall_ms(), b"k", value, ())]))
    log.roll()
    await store.flusher.flush([log])
    partition.flushed()
    return partition


def test_a_log_that_lost_its_segments_since_it_was_chosen_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SystemDisk(tmp_path)
        world = World(HurriedClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
        store = LogStore(world, on_flushed=lambda _: None)
        await store.start()
        served = ServedTopic(TOPIC_ID, "orders")
        first, second = await _partition(world, store, 0), await _partition(world, store, 1)
        served.partitions += [first, second]
        table = TopicTable()
        table.add(served)
        cleaner = LogCleaner(table, store.replacer, world.clock, InThread(world), lambda: DEFAULT_NODE_SETTINGS)
        cleaning = asyncio.get_running_loop().create_task(cleaner.clean_what_is_due())
        while not cleaner.states:
            await asyncio.sleep(0)
        delete_records(first, Offset(2))
        assert first.log.retention.delete_expired(world.clock.wall_ms()) == [0]
        await cleaning
        assert [cleaner.states[partition.log_id].passes for partition in (first, second)] == [0, 1]
        await store.close()
        disk.close()

    asyncio.run(main())


def table_of(partition: Partition) -> TopicTable:
    served = ServedTopic(TOPIC_ID, "orders")
    served.partitions.append(partition)
    table = TopicTable()
    table.add(served)
    return table


def test_a_swap_that_a_full_disk_held_up_is_ended_before_the_log_is_cleaned_again() -> None:
    async def main() -> None:
        device = Device(Random(1))
        disk = SimulatedDisk(device)
        world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
        store = LogStore(world, on_flushed=lambda _: None)
        await store.start()
        partition = await _partition(world, store, 0)
        cleaner = LogCleaner(
            table_of(partition), store.replacer, world.clock, InThread(world), lambda: DEFAULT_NODE_SETTINGS
        )
        promise = f"{partition.log.directory}/{layout.swap_name((0, 2))}"
        device.fail(Operation.REMOVE, promise, code=errno.ENOSPC)
        await cleaner.clean_what_is_due()
        state = cleaner.states[partition.log_id]
        assert (state.passes, state.errors, disk.exists(promise)) == (0, 1, True)

        def watch(operation: Operation, path: str) -> None:
            if operation is Operation.CREATE and path.endswith(layout.CLEANED):
                assert not disk.exists(promise), "a start would take the new file for what was promised"

        device.watch(watch)
        await cleaner.clean_what_is_due()
        assert (state.passes, state.errors) == (1, 1)
        await store.close()

    asyncio.run(main())


class CutShort(InThread):
    """Whenever something is about to take its place, the end of the log is cut off, as its leader may wish."""

    def __init__(self, world: World, store: LogStore, partition: Partition) -> None:
        super().__init__(world)
        self._store = store
        self._partition = partition
        self.was_written = False

    async def run(self, job: CleaningJob, bytes_per_s: float) -> AsyncGenerator[Event, None]:
        partition_log = self._partition.log
        async for event in super().run(job, bytes_per_s):
            if drafts_in(partition_log):
                self.was_written = True
                self._partition.writer.append(encode_batch([(self._store.world.clock.wall_ms(), b"k", b"3", ())]))
                await self._store.truncation.truncate(partition_log, partition_log.next_offset - 1)
            yield event


def drafts_in(partition_log: PartitionLog) -> list[str]:
    return [name for name in partition_log.disk.list(partition_log.directory) if name.endswith(layout.CLEANED)]


def test_nothing_is_left_of_a_pass_that_came_to_nothing() -> None:
    async def main() -> None:
        world = World(
            SystemClock(), SimulatedDisk(Device(Random(1))), SystemEntropy(), SystemNetwork(), SystemThreads()
        )
        store = LogStore(world, on_flushed=lambda _: None)
        await store.start()
        partition = await _partition(world, store, 0)
        worker = CutShort(world, store, partition)
        cleaner = LogCleaner(table_of(partition), store.replacer, world.clock, worker, lambda: DEFAULT_NODE_SETTINGS)
        await cleaner.clean_what_is_due()
        assert worker.was_written
        assert cleaner.states[partition.log_id].passes == 0
        assert drafts_in(partition.log) == []
        await store.close()

    asyncio.run(main())
