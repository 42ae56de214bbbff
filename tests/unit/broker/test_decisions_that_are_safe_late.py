"""A transaction that was decided is ended in its partitions, however long it took until the decision was safe."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.broker.coordination import shard as coordinator
from headrace.broker.coordination.shard import Shard
from headrace.coordinators.effects import Caller
from headrace.coordinators.records import TRANSACTION_KINDS
from headrace.coordinators.transactions.coordinator import AddPartitions, TransactionCoordinator
from headrace.coordinators.transactions.effects import MarkerOrder, TransactionEffects
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import ProducerId, TopicPartition
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.storage.settings import LogSettings
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from tests.unit.broker.small_partitions import SmallPartition
from tests.unit.storage.small_logs import new_log

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.coordinators.effects import Effects

SETTINGS = LogSettings(segment_ms=1 << 60, retention_ms=None)
TRANSACTIONAL_ID, PRODUCER = "t", ProducerId(7)
WRITTEN_TO = TopicPartition("orders", 0)
CALLER = Caller("client", "/127.0.0.1", 4)
LONG_AFTER_S = coordinator.COMMIT_S_MAX + 1


async def test_markers_are_ordered_though_nobody_waits_for_the_decision_any_more(tmp_path: Path) -> None:
    disk = SystemDisk(tmp_path)
    small = SmallPartition(new_log(disk, SETTINGS), disk)
    world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
    orders: list[MarkerOrder] = []
    failures: list[object] = []

    def note_orders(_shard: object, _mind: object, effects: Effects) -> None:
        assert isinstance(effects, TransactionEffects)
        orders.extend(effects.markers)

    shard = Shard(
        small.partition,
        world,
        new_mind=lambda: TransactionCoordinator(TransactionSettings(), 0),
        kinds=TRANSACTION_KINDS,
        load_turn=asyncio.Lock(),
        on_effects=note_orders,
        on_unreadable=lambda _, problem: failures.append(problem),
        on_failure=failures.append,
    )
    running = asyncio.create_task(shard.run())
    await asyncio.sleep(0)
    await begin(shard, small)

    ending = asyncio.create_task(end(shard))
    await asyncio.sleep(0)
    small.partition.expire_waiters(world.clock.monotonic_s() + LONG_AFTER_S)  # the disk, or a replica, took too long
    with pytest.raises(Refusal) as refused:
        await ending
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert orders == [], "the decision is not safe yet"

    small.flush()
    running.cancel()
    disk.close()
    assert [(order.producer_id, order.is_commit, order.partitions) for order in orders] == [
        (PRODUCER, True, (WRITTEN_TO,))
    ]
    assert not failures


async def begin(shard: Shard[TransactionCoordinator], small: SmallPartition) -> None:
    wanted = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    asked = AddPartitions(TRANSACTIONAL_ID, PRODUCER, 0, (WRITTEN_TO,))
    for decide in (
        lambda mind, token, now: mind.init_producer_id(wanted, CALLER, token, now, PRODUCER),
        lambda mind, token, now: mind.add_partitions(asked, token, now),
    ):
        asking = asyncio.create_task(shard.ask(decide))
        await asyncio.sleep(0)
        small.flush()
        await asking


async def end(shard: Shard[TransactionCoordinator]) -> object:
    request = EndTxnRequest(TRANSACTIONAL_ID, PRODUCER, 0, committed=True)
    return await shard.ask(lambda mind, token, now: mind.end(request, CALLER, token, now, PRODUCER))
