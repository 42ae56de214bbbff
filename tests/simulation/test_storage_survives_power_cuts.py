"""A store under load whose power is cut at any step, again and again. What was reported flushed must be there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.model.names import LogId, TopicId, TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.settings import LogSettings
from headrace.storage.store.log_store import LogStore
from headrace.wire.batches.header import read_header
from tests.unit.storage.small_logs import FIRST_MS, append, batch_at, end_if_cut, headers_in

if TYPE_CHECKING:
    from random import Random

    from headrace.runtime.world import World
    from headrace.simulation.environment.device import Device
    from headrace.storage.log.partition_log import PartitionLog

SEEDS = 20
LIVES = 6
LOG_IDS = [LogId(TopicId(bytes([9] * 16)), number) for number in range(5)]
SETTINGS = LogSettings(segment_bytes=3000, index_interval_bytes=300, retention_ms=2000)


class Ledger:
    """What a client of the store was told."""

    def __init__(self) -> None:
        self.batches: dict[LogId, dict[int, bytes]] = {log_id: {} for log_id in LOG_IDS}
        self.flushed: dict[LogId, int] = dict.fromkeys(LOG_IDS, 0)
        self.started: dict[LogId, int] = dict.fromkeys(LOG_IDS, 0)
        """The log start that was made durable."""
        self.checks = 0

    def check(self, log: PartitionLog) -> None:
        """The log begins with all that was flushed, and holds nothing that was never written."""
        written = self.batches[log.log_id]
        assert log.next_offset >= self.flushed[log.log_id], f"{log} lost what was flushed"
        assert log.start_offset >= self.started[log.log_id], f"{log} brought deleted records back"
        offset = log.start_offset
        while offset < log.next_offset:
            piece = log.read(offset, 1 << 20, log.next_offset, at_least_one=True)
            assert piece is not None
            run_of_batches = piece.read()
            piece.release()
            position = 0
            for header in headers_in(run_of_batches):
                assert run_of_batches[position : position + header.size] == written[header.base_offset]
                position += header.size
                offset = header.next_offset
                self.checks += 1
        for gone in [base for base in written if base >= log.next_offset]:
            del written[gone]


async def live(world: World, random: Random, device: Device, ledger: Ledger) -> None:
    """Check what the last life left, then write, roll, cut, delete and checkpoint until the lights go out."""

    def note_flushed(log: PartitionLog) -> None:
        log.high_watermark = ledger.flushed[log.log_id] = log.flushed_offset

    device.capacity_bytes = None
    store = LogStore(world, on_flushed=note_flushed)
    await store.start()
    await store.prepare({log_id: (TopicPartition("t", log_id.partition), SETTINGS) for log_id in store.log_ids()})
    logs = [
        await store.open_or_create(log_id, TopicPartition("orders", log_id.partition), SETTINGS) for log_id in LOG_IDS
    ]
    for log in logs:
        ledger.check(log)
        log.high_watermark = log.flushed_offset
    flushing = asyncio.get_running_loop().create_task(store.run())
    for _ in range(random.randrange(300)):
        await act(world, store, random.choice(logs), random, device, ledger)
        await asyncio.sleep(random.choice([0, 0, 0.001, 0.02]))
    flushing.cancel()
    await store.close()
    for log in logs:
        ledger.flushed[log.log_id] = log.next_offset


async def act(world: World, store: LogStore, log: PartitionLog, random: Random, device: Device, ledger: Ledger) -> None:
    match random.randrange(20):
        case 0:
            await store.checkpoints.write()
        case 1:
            log.retention.advance_start(random.randint(log.start_offset, max(log.start_offset, log.high_watermark)))
            start_offset = log.start_offset
            try:
                await store.checkpoints.write_start_offsets()
            except Refusal:
                return
            ledger.started[log.log_id] = start_offset
        case 2:
            log.retention.delete_expired(world.clock.wall_ms())
            await store.checkpoints.remove_garbage()
        case 3:
            end_offset = random.randint(max(log.start_offset, log.next_offset - 5), log.next_offset)
            ledger.flushed[log.log_id] = min(ledger.flushed[log.log_id], end_if_cut(log, end_offset))
            if end_offset < log.next_offset:
                await cut(store, log, end_offset, ledger)
        case 4:
            device.capacity_bytes = None
            if random.random() < 0.3:
                used = device.used_bytes
                device.capacity_bytes = used + random.randrange(3000)
        case _:
            write(store, log, random, ledger)


async def cut(store: LogStore, log: PartitionLog, end_offset: int, ledger: Ledger) -> None:
    try:
        await store.truncation.truncate(log, end_offset)
    except Refusal:
        return
    ledger.flushed[log.log_id] = min(ledger.flushed[log.log_id], log.next_offset)


def write(store: LogStore, log: PartitionLog, random: Random, ledger: Ledger) -> None:
    offset = log.next_offset
    batches = []
    for _ in range(random.randint(1, 4)):
        count = random.randint(1, 3)
        batch = batch_at(
            offset,
            count=count,
            value_bytes=random.choice([0, 10, 100, 1500]),
            timestamps=[FIRST_MS + random.randrange(5000)] * count,
            epoch=max(0, log.epochs.latest),
        )
        batches.append(batch)
        offset += count
    # Noted before: the lights may go out in the middle.
    ledger.batches[log.log_id].update((read_header(batch).base_offset, bytes(batch)) for batch in batches)
    try:
        append(log, *batches)
    except Refusal:
        return
    store.flusher.want(log, is_urgent=random.random() < 0.5)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_flushed_survives_any_number_of_power_cuts(seed: int) -> None:
    async def main(universe: Universe) -> None:
        random = universe.random("workload")
        host = universe.host("node")
        ledger = Ledger()
        for number in range(LIVES):
            if number:
                host.restart()
            host.power_cut_at(random.randrange(1, 4000))
            host.start(live(host.world, random, host.device, ledger), "store")
            for _ in range(2000):
                await asyncio.sleep(0.01)
                if not host.is_up:
                    break
            else:
                host.power_cut()
        assert ledger.checks

    run(main, seed)
