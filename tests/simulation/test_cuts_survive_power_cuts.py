"""The end of a log is cut off, and later the power. What was flushed since is there, and nothing of what was cut."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.names import TopicPartition
from headrace.simulation.environment.universe import Universe, run
from headrace.storage.store.log_store import LogStore
from tests.unit.storage.small_logs import FIRST_MS, LOG_ID, SETTINGS, append, batch_at, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.runtime.world import World
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.settings import LogSettings

    Life = Callable[[World], Coroutine[Any, Any, None]]

SEEDS = range(8)
ROOMY = replace(SETTINGS, segment_bytes=1 << 20, retention_ms=1000)
"""A cut then leaves a segment that it has cut in the middle."""
SMALL = replace(ROOMY, segment_bytes=1500)
CUT, END = 21, 30


async def opened(world: World, settings: LogSettings) -> tuple[LogStore, PartitionLog]:
    store = LogStore(world, on_flushed=lambda _: None)
    await store.start()
    return store, await store.open_or_create(LOG_ID, TopicPartition("orders", LOG_ID.partition), settings)


async def write(store: LogStore, log: PartitionLog, end_offset: int, **kind: int) -> None:
    for offset in range(log.next_offset, end_offset):
        append(log, batch_at(offset, value_bytes=100, **kind))
    await store.flusher.flush([log])


def live_twice(first: Life, second: Life, seed: int) -> None:
    """With a power cut between them."""

    async def main(universe: Universe) -> None:
        host = universe.host("node")
        await host.start(first(host.world), "first life")
        host.power_cut()
        host.restart()
        await host.start(second(host.world), "second life")

    run(main, seed)


def roll(log: PartitionLog) -> None:
    """As the cleaner does when the oldest record has waited for too long."""
    log.roll()


def expire(log: PartitionLog) -> None:
    log.retention.delete_expired(FIRST_MS + 1_000_000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("go_on", [roll, expire])
def test_nothing_is_added_or_expires_while_a_cut_is_made(go_on: Callable[[PartitionLog], None], seed: int) -> None:
    """A new segment could have the name of one whose files are about to be removed."""

    async def cut(world: World) -> None:
        store, log = await opened(world, ROOMY)
        await write(store, log, 40)
        log.high_watermark = CUT
        await store.checkpoints.write()

        def on_cut() -> None:
            """The next turn of the loop comes before the thread that cuts the files."""
            asyncio.get_running_loop().call_soon(go_on, log)

        await store.truncation.truncate(log, CUT, on_cut)
        assert [segment.base_offset for segment in log.segments] == [0]
        go_on(log)
        assert log.segments[-1].base_offset == CUT
        await write(store, log, END, epoch=1)

    async def check(world: World) -> None:
        _, log = await opened(world, ROOMY)
        held = [(header.base_offset, header.leader_epoch) for header in read_all(log)]
        assert held == [(offset, int(offset >= CUT)) for offset in range(log.start_offset, END)]

    live_twice(cut, check, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("go_on", [roll, expire])
def test_a_log_that_changes_while_the_place_is_looked_for_is_searched_again(
    go_on: Callable[[PartitionLog], None], seed: int
) -> None:
    async def cut(world: World) -> None:
        store, log = await opened(world, SMALL)
        await write(store, log, 40)
        log.high_watermark = CUT
        cutting = asyncio.get_running_loop().create_task(store.truncation.truncate(log, CUT))
        await asyncio.sleep(0)
        before = log.segments
        go_on(log)
        assert log.segments != before
        await cutting
        assert log.next_offset == CUT
        await write(store, log, END, epoch=1)

    async def check(world: World) -> None:
        _, log = await opened(world, SMALL)
        held = [(header.base_offset, header.leader_epoch) for header in read_all(log)]
        assert held == [(offset, int(offset >= CUT)) for offset in range(log.start_offset, END)]

    live_twice(cut, check, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_producers_whose_batches_are_deleted_are_known_after_a_cut_that_empties_the_log(seed: int) -> None:
    """Only the snapshot that the cut wrote knows them."""

    async def cut(world: World) -> None:
        store, log = await opened(world, SETTINGS)
        await write(store, log, CUT, producer_id=1, sequence=0)
        log.high_watermark = CUT
        log.retention.advance_start(CUT)
        log.retention.delete_expired(0)
        await store.checkpoints.remove_garbage()
        await write(store, log, END)
        await store.checkpoints.write()
        await store.truncation.truncate(log, CUT)
        await write(store, log, END, epoch=1)

    async def check(world: World) -> None:
        _, log = await opened(world, SETTINGS)
        assert (log.start_offset, log.next_offset) == (CUT, END)
        assert log.producers.get(1) is not None

    live_twice(cut, check, seed)
