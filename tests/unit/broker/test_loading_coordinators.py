"""Coordinators that load at the same time take turns: each would need a slice of every turn of the event loop."""

from __future__ import annotations

import asyncio
from itertools import count, groupby
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.coordination import shard as coordinator
from headrace.broker.coordination.shard import Shard
from headrace.coordinators.effects import Effects, Reply
from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets
from headrace.coordinators.records import GROUP_KINDS, LogRecord, encode
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_PRODUCER, Millis, ProducerId
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.unit.broker.small_partitions import SmallPartition
from tests.unit.storage.small_logs import append, marker_at, new_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.coordinators.effects import Now, Token
    from headrace.storage.log.partition_log import PartitionLog

COMMITS = 20
SETTINGS = LogSettings(retention_ms=None)


class HastyClock:
    """A second passes whenever it is read, so that every record uses up its slice of a turn."""

    def __init__(self) -> None:
        self._seconds = count()

    def monotonic_s(self) -> float:
        return float(next(self._seconds))

    def wall_ms(self) -> Millis:
        return Millis(0)


class NotingMind:
    """Notes whose record comes when, and decides nothing."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name = name
        self._notes = notes

    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        self._notes.append(self._name)

    def apply_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        raise AssertionError("there are no transactions in these logs")

    def loaded(self, now: Now) -> Effects:
        return Effects()

    def tick(self, now: Now) -> Effects:
        return Effects()

    def expire(self, now: Now) -> Effects:
        return Effects()

    def next_deadline_ms(self) -> int | None:
        return None


def log_with_commits(disk: SystemDisk) -> SmallPartition:
    small = SmallPartition(new_log(disk, SETTINGS), disk)
    small.send(encode_batch([commit_of(number) for number in range(COMMITS)]))
    small.flush()
    return small


def commit_of(number: int) -> tuple[int, bytes, bytes | None, tuple[()]]:
    return 0, *encode(LogRecord(OffsetCommitKey("group", "topic", number), OffsetCommitValue(offset=number))), ()


async def test_one_log_is_loaded_after_the_other(tmp_path: Path) -> None:
    notes: list[str] = []
    failures: list[BaseException] = []
    turn = asyncio.Lock()
    disks = []
    shards = []
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        disks.append(SystemDisk(tmp_path / name))
        world = World(HastyClock(), disks[-1], SystemEntropy(), SystemNetwork(), SystemThreads())
        shards.append(
            Shard(
                log_with_commits(disks[-1]).partition,
                world,
                new_mind=lambda name=name: NotingMind(name, notes),  # type: ignore[misc]  # mypy infers no types of defaults
                kinds=GROUP_KINDS,
                load_turn=turn,
                on_unreadable=lambda _, problem: failures.append(AssertionError(problem)),
                on_failure=failures.append,
            )
        )
    loads = [asyncio.create_task(shard.run()) for shard in shards]
    while len(notes) < 2 * COMMITS and not failures:
        await asyncio.sleep(0.001)
    for load in loads:
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
    for disk in disks:
        disk.close()
    assert [(name, len(list(some))) for name, some in groupby(notes)] == [("left", COMMITS), ("right", COMMITS)]
    assert not failures


class OffsetsMind(NotingMind):
    """Keeps offsets as a coordinator of groups does, and counts the records that it is told."""

    def __init__(self) -> None:
        super().__init__("", [])
        self.offsets = CommittedOffsets()
        self.is_loaded = asyncio.Event()
        self.counted_on: list[str] = []

    def count_on(self, what: str) -> None:
        """Soft state, which moves on with the decision and not with the record."""
        self.counted_on.append(what)

    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        super().apply(record)
        if record.value is None:
            self.offsets.forget(record.key)
        elif producer_id == NO_PRODUCER:
            self.offsets.commit(record.key, record.value)
        else:
            self.offsets.commit_in_transaction(record.key, record.value, producer_id)

    def apply_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def loaded(self, now: Now) -> Effects:
        self.is_loaded.set()
        return Effects()

    @property
    def count(self) -> int:
        return len(self._notes)

    def found(self) -> dict[int, int]:
        known = ((place, self.offsets.get("group", "topic", place)) for place in range(3))
        return {place: kept.offset for place, kept in known if kept is not None}


def write_at_random(log: PartitionLog, chance: Random, told: OffsetsMind) -> None:
    """Commits, in transactions and outside, their ends, and records that forget; `told` hears of each."""
    for number in range(60):
        producer_id = chance.choice([NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, 1, 2])
        if producer_id >= 0 and chance.random() < 0.4:
            marker = Marker(chance.random() < 0.7, 0)
            append(log, marker_at(log.next_offset, producer_id, marker))
            told.apply_marker(ProducerId(producer_id), is_commit=marker.is_commit)
            continue
        value = None if producer_id < 0 and chance.random() < 0.1 else OffsetCommitValue(offset=number)
        record = LogRecord(OffsetCommitKey("group", "topic", chance.randrange(3)), value)
        batch = encode_batch(
            [(0, *encode(record), ())],
            base_offset=log.next_offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0,
        )
        append(log, batch)
        told.apply(record, ProducerId(producer_id))


@pytest.mark.parametrize("most", [coordinator.LATEST_MAX, 2])
async def test_only_the_last_of_each_key_is_applied_and_the_order_of_transactions_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(coordinator, "LATEST_MAX", most)
    saved = 0
    for seed in range(30):
        (tmp_path / str(seed)).mkdir()
        disk = SystemDisk(tmp_path / str(seed))
        told, loading = OffsetsMind(), OffsetsMind()
        log = new_log(disk, SETTINGS)
        write_at_random(log, Random(seed), told)
        world = World(HastyClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads())
        failures: list[object] = []
        shard = Shard(
            SmallPartition(log, disk).partition,
            world,
            new_mind=lambda mind=loading: mind,  # type: ignore[misc]  # mypy infers no types of defaults
            kinds=GROUP_KINDS,
            load_turn=asyncio.Lock(),
            on_unreadable=lambda _, problem, failures=failures: failures.append(problem),
            on_failure=failures.append,
        )
        load = asyncio.create_task(shard.run())
        await loading.is_loaded.wait()
        load.cancel()
        assert loading.found() == told.found(), f"seed {seed}"
        assert not failures
        saved += told.count - loading.count
        disk.close()
    assert saved > 100


class HalfwayMind(OffsetsMind):
    """Calls somebody when half of the commits are applied: the whole log is read by then."""

    def __init__(self, halfway: Callable[[], object]) -> None:
        super().__init__()
        self._halfway = halfway

    def apply(self, record: LogRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        super().apply(record, producer_id)
        if self.count == COMMITS // 2:
            asyncio.get_running_loop().call_soon(self._halfway)


async def test_a_marker_that_comes_when_the_log_is_read_and_not_yet_applied_is_not_missed(tmp_path: Path) -> None:
    disk = SystemDisk(tmp_path)
    small = SmallPartition(new_log(disk, SETTINGS), disk)
    in_transaction = LogRecord(OffsetCommitKey("group", "topic", COMMITS), OffsetCommitValue(offset=7))
    opening = [(0, *encode(in_transaction), ())]
    small.send(encode_batch(opening, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
    small.send(encode_batch([commit_of(number) for number in range(COMMITS)]))
    failures: list[object] = []

    def commit_transaction() -> None:
        shard.write_marker(ProducerId(1), 0, is_commit=True, coordinator_epoch=0, transaction_version=0)

    mind = HalfwayMind(commit_transaction)
    shard = Shard(
        small.partition,
        World(HastyClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads()),
        new_mind=lambda: mind,
        kinds=GROUP_KINDS,
        load_turn=asyncio.Lock(),
        on_unreadable=lambda _, problem: failures.append(problem),
        on_failure=failures.append,
    )
    load = asyncio.create_task(shard.run())
    await mind.is_loaded.wait()
    load.cancel()
    disk.close()
    kept = mind.offsets.get("group", "topic", COMMITS)
    assert kept is not None, "the transaction is committed, and its offset is not"
    assert kept.offset == 7
    assert not failures


async def test_a_log_that_is_shortened_while_it_is_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was to be read next is gone: by retention, or because somebody asked for it."""
    monkeypatch.setattr(coordinator, "READ_BYTES", 1)  # a batch at a time
    monkeypatch.setattr(coordinator, "LATEST_MAX", 1)
    monkeypatch.setattr(coordinator, "TRY_AGAIN_S", 0.0)
    disk = SystemDisk(tmp_path)
    small = SmallPartition(new_log(disk, SETTINGS), disk)
    for number in range(COMMITS):
        small.send(encode_batch([commit_of(number)]))
    failures: list[object] = []
    minds: list[HalfwayMind] = []

    def new_mind() -> HalfwayMind:
        minds.append(HalfwayMind(lambda: small.log.retention.advance_start(COMMITS - 1)))
        return minds[-1]

    shard = Shard(
        small.partition,
        World(HastyClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads()),
        new_mind=new_mind,
        kinds=GROUP_KINDS,
        load_turn=asyncio.Lock(),
        on_unreadable=lambda _, problem: failures.append(problem),
        on_failure=failures.append,
    )
    load = asyncio.create_task(shard.run())
    while not (minds and minds[-1].is_loaded.is_set()) and not load.done():
        await asyncio.sleep(0.001)
    load.cancel()
    with pytest.raises(asyncio.CancelledError):
        await load
    disk.close()
    assert [mind.is_loaded.is_set() for mind in minds] == [False, True]
    assert minds[-1].count == 1, "what is left of the log"
    assert not failures


async def test_a_mind_whose_write_fails_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has counted on the record already. The next one knows what is in the log, and nothing else."""
    monkeypatch.setattr(coordinator, "TRY_AGAIN_S", 0.0)
    device = Device(Random(1))
    disk = SimulatedDisk(device)
    small = SmallPartition(new_log(disk, SETTINGS), disk)
    minds: list[OffsetsMind] = []
    failures: list[object] = []

    def new_mind() -> OffsetsMind:
        minds.append(OffsetsMind())
        return minds[-1]

    def commit(mind: OffsetsMind, token: Token, _: Now) -> Effects:
        mind.count_on("it")
        return Effects(
            [LogRecord(OffsetCommitKey("group", "topic", 0), OffsetCommitValue(offset=7))], [Reply(token, "done")]
        )

    shard = Shard(
        small.partition,
        World(HastyClock(), disk, SystemEntropy(), SystemNetwork(), SystemThreads()),
        new_mind=new_mind,
        kinds=GROUP_KINDS,
        load_turn=asyncio.Lock(),
        on_unreadable=lambda _, problem: failures.append(problem),
        on_failure=failures.append,
    )
    load = asyncio.create_task(shard.run())
    while not (minds and minds[-1].is_loaded.is_set()):
        await asyncio.sleep(0.001)
    device.capacity_bytes = device.used_bytes
    with pytest.raises(Refusal) as refused:
        await shard.ask(commit)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE, "clients come back for this one"
    device.heal()
    with pytest.raises(Refusal) as refused:
        await shard.ask(commit)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "nobody is answered from a state of no log"
    while not minds[-1].is_loaded.is_set() or len(minds) < 2:
        await asyncio.sleep(0.001)
    assert [mind.counted_on for mind in minds] == [["it"], []]
    load.cancel()
    assert not failures
