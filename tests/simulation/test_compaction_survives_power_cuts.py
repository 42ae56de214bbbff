"""A store that compacts while it is written to, and whose power is cut at any step, again and again.

Whatever was flushed adds up to the same dictionary afterwards: no newest value is lost, no deleted key comes back.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.counters import Counters
from headrace.broker.partitions.partition import Partition, log_settings
from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
from headrace.broker.partitions.writing import AppendStage
from headrace.broker.replicas.cleaner import LogCleaner
from headrace.metadata.configs.settings import DEFAULT_NODE_SETTINGS, DEFAULT_TOPIC_SETTINGS
from headrace.model.errors import Refusal
from headrace.model.names import Epoch, LogId, NodeId, Offset, TopicId, TopicPartition
from headrace.replication.replica import Replica
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.compaction.key_map import SLOT_BYTES
from headrace.storage.compaction.workers import InThread
from headrace.storage.store.log_store import LogStore
from headrace.wire.batches.records import encode_batch
from tests.unit.storage.compacted_logs import held
from tests.unit.storage.small_logs import end_if_cut

if TYPE_CHECKING:
    from random import Random

    from headrace.runtime.world import World
    from headrace.storage.log.partition_log import PartitionLog

SEEDS = 12
LIVES = 6
NODE, OTHER = NodeId(1), NodeId(2)
TOPIC_ID = TopicId(bytes([9] * 16))
LOG_IDS = [LogId(TOPIC_ID, number) for number in range(2)]
KEYS = [b"key %d" % number for number in range(12)]
SETTINGS = replace(
    DEFAULT_TOPIC_SETTINGS,
    cleanup_policy=("compact",),
    segment_bytes=1500,
    index_interval_bytes=300,
    min_cleanable_dirty_ratio=0.2,
    delete_retention_ms=300,
)
NODE_SETTINGS = replace(DEFAULT_NODE_SETTINGS, log_cleaner_dedupe_buffer_size=10 * SLOT_BYTES)

Written = tuple[int, bytes, bytes | None]


class Ledger:
    """What was written, as far as it is still there."""

    def __init__(self) -> None:
        self.written: dict[LogId, list[Written]] = {log_id: [] for log_id in LOG_IDS}
        self.flushed: dict[LogId, int] = dict.fromkeys(LOG_IDS, 0)
        self.cutting_to: dict[LogId, int] = {}
        """While a log is being cut: what is flushed beyond that may go."""
        self.has_compacted = False
        self.count = 0

    def check(self, log: PartitionLog) -> None:
        assert log.next_offset >= self.flushed[log.log_id], f"{log} lost what was flushed"
        kept = [one for one in self.written[log.log_id] if one[0] < log.next_offset]
        self.written[log.log_id] = kept
        known = {offset: (key, value) for offset, key, value in kept}
        found: dict[bytes, bytes | None] = {}
        for _, records in held(log):
            for record in records:
                assert known[record.offset] == (record.key, record.value)
                found[record.key or b""] = record.value
        expected = {key: value for _, key, value in kept}
        assert _present(found) == _present(expected)


def _present(values: dict[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    return {key: value for key, value in values.items() if value is not None}


async def live(world: World, random: Random, ledger: Ledger) -> None:
    table = TopicTable()

    def flushed(log: PartitionLog) -> None:
        partition = table.by_log_id(log.log_id)
        if partition is not None:
            partition.flushed()
            ledger.flushed[log.log_id] = min(log.flushed_offset, ledger.cutting_to.get(log.log_id, log.flushed_offset))

    ledger.cutting_to.clear()
    store = LogStore(world, on_flushed=flushed)
    await store.start()
    served = ServedTopic(TOPIC_ID, "orders")
    for log_id in LOG_IDS:
        name = TopicPartition("orders", log_id.partition)
        log = await store.open_or_create(log_id, name, log_settings(SETTINGS))
        ledger.check(log)
        served.partitions.append(_partition(world, store, name, log))
    table.add(served)
    cleaner = LogCleaner(table, store.replacer, world.clock, InThread(world), lambda: NODE_SETTINGS)
    loop = asyncio.get_running_loop()
    chores = [loop.create_task(store.run()), loop.create_task(_clean(cleaner))]
    for _ in range(random.randrange(400)):
        partition = random.choice([one for one in served.partitions if one is not None])
        await _act(store, partition, random, ledger)
        has_swapped = partition.log.version > 2 * partition.log.cuts
        ledger.has_compacted = ledger.has_compacted or has_swapped
        await asyncio.sleep(random.choice([0, 0.001, 0.02]))
    for chore in chores:
        chore.cancel()
    await asyncio.gather(*chores, return_exceptions=True)
    await store.close()


def _partition(world: World, store: LogStore, name: TopicPartition, log: PartitionLog) -> Partition:
    replica = Replica(
        NODE,
        log_start=Offset(log.start_offset),
        written=Offset(log.next_offset),
        flushed=Offset(log.flushed_offset),
        high_watermark=Offset(log.start_offset),
    )
    stage = AppendStage(Counters(), lambda _: None, lambda _: None)
    partition = Partition(name, log, replica, stage=stage, flusher=store.flusher, clock=world.clock)
    partition.configure(SETTINGS)
    partition.set_leased(True)
    partition.lead(Epoch(max(0, log.epochs.latest) + 1), [NODE], [NODE])
    return partition


async def _clean(cleaner: LogCleaner) -> None:
    while True:
        await cleaner.clean_what_is_due()
        assert not any(state.is_stopped for state in cleaner.states.values())
        await asyncio.sleep(0.02)


async def _act(store: LogStore, partition: Partition, random: Random, ledger: Ledger) -> None:
    log = partition.log
    match random.randrange(12):
        case 0:
            await store.checkpoints.write()
        case 1:
            ledger.check(log)
        case 2 if partition.high_watermark < log.next_offset:
            epoch = partition.replica.leader_epoch
            partition.follow(Epoch(epoch + 1), OTHER, [NODE, OTHER])
            end = end_if_cut(log, random.randint(partition.high_watermark, log.next_offset))
            ledger.flushed[log.log_id] = min(ledger.flushed[log.log_id], end)
            ledger.cutting_to[log.log_id] = end
            await store.truncation.truncate(log, end, on_cut=partition.follower_writer.was_cut)
            del ledger.cutting_to[log.log_id]
            ledger.written[log.log_id] = [one for one in ledger.written[log.log_id] if one[0] < log.next_offset]
            partition.lead(Epoch(epoch + 2), [NODE], [NODE])
        case _:
            _write(partition, random, ledger)


def _write(partition: Partition, random: Random, ledger: Ledger) -> None:
    pairs = []
    for _ in range(random.randint(1, 4)):
        ledger.count += 1
        value = None if random.random() < 0.2 else b"%d " % ledger.count + b"v" * random.choice([0, 20, 200])
        pairs.append((random.choice(KEYS), value))
    now_ms = 1_700_000_000_000 + ledger.count
    batch = encode_batch([(now_ms, key, value, ()) for key, value in pairs])
    offset = partition.log.next_offset
    # Noted before: the lights may go out in the middle.
    ledger.written[partition.log_id] += [(offset + number, *pair) for number, pair in enumerate(pairs)]
    try:
        partition.writer.append(batch)
    except Refusal:
        del ledger.written[partition.log_id][-len(pairs) :]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_dictionary_survives_any_number_of_power_cuts(seed: int) -> None:
    async def main(universe: Universe) -> None:
        random = universe.random("workload")
        host = universe.host("node")
        ledger = Ledger()
        for number in range(LIVES):
            if number:
                host.restart()
            host.power_cut_at(random.randrange(1, 5000))
            host.start(live(host.world, random, ledger), "store")
            for _ in range(2000):
                await asyncio.sleep(0.01)
                if not host.is_up:
                    break
            else:
                host.power_cut()
        assert ledger.has_compacted, "nothing was ever compacted"

    run(main, seed)
