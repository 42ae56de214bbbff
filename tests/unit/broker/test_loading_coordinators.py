"""Coordinators that load at the same time take turns: each would need a slice of every turn of the event loop."""

from __future__ import annotations

import asyncio
from itertools import count, groupby
from typing import TYPE_CHECKING

import pytest

from headrace.broker.coordinator import Shard
from headrace.coordinators.effects import Effects
from headrace.coordinators.records import GROUP_KINDS, LogRecord, encode
from headrace.model.names import NO_PRODUCER, Millis
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.world import World
from headrace.storage.settings import LogSettings
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from headrace.wire.records import encode_batch
from tests.unit.broker.small_partitions import SmallPartition
from tests.unit.storage.small_logs import new_log

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.coordinators.effects import Now
    from headrace.model.names import ProducerId

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
    records = [
        (0, *encode(LogRecord(OffsetCommitKey("group", "topic", number), OffsetCommitValue(offset=number))), ())
        for number in range(COMMITS)
    ]
    small.send(encode_batch(records))
    small.flush()
    return small


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
                new_mind=lambda name=name: NotingMind(name, notes),  # type: ignore[misc]
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
