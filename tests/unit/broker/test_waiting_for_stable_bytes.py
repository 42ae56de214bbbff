"""Who reads committed records waits for bytes of decided transactions; others for what is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.milestones import ByteWait
from headrace.model.names import Epoch, NodeId
from headrace.runtime.disk import SystemDisk
from headrace.storage.settings import LogSettings
from tests.unit.broker.small_partitions import NODE, SmallPartition, batch_of
from tests.unit.storage.small_logs import new_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition


class Listener:
    """Has to be there for a partition to tell anybody."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def partition_changed(self, partition: Partition) -> None:
        self.heard.append("changed")

    def partition_readable(self, partition: Partition, *, is_stable: bool) -> None:
        self.heard.append("stable" if is_stable else "readable")

    def partition_advanced(self, partition: Partition) -> None:
        raise AssertionError("for followers alone")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    yield SmallPartition(new_log(disk, LogSettings(segment_ms=1 << 60, retention_ms=None)), disk)
    disk.close()


def waiting_for(small: SmallPartition, more: int, *, is_committed_only: bool) -> ByteWait:
    waiting = ByteWait(lambda: None)
    small.partition.watchers.await_bytes(more, waiting, is_committed_only=is_committed_only)
    return waiting


def send_transactional(small: SmallPartition, sequence: int) -> None:
    small.send(batch_of(producer_id=7, epoch=0, sequence=sequence, is_transactional=True, value_bytes=1000))
    small.flush()


def test_bytes_of_an_open_transaction_count_when_it_ends(small: SmallPartition) -> None:
    listener = Listener()
    small.partition.watchers.add(listener)
    committed = waiting_for(small, 3000, is_committed_only=True)
    safe = waiting_for(small, 3000, is_committed_only=False)
    for sequence in range(2):
        send_transactional(small, sequence)
    assert (committed.is_over, safe.is_over) == (False, False)
    send_transactional(small, 2)
    assert (committed.is_over, safe.is_over) == (False, True)
    small.partition.writer.write_marker(7, 0, is_commit=True, coordinator_epoch=1, transaction_version=1)
    small.flush()
    assert committed.is_over


def test_what_was_open_before_anybody_waited_counts_too(small: SmallPartition) -> None:
    small.partition.watchers.add(Listener())
    for sequence in range(3):
        send_transactional(small, sequence)
    committed = waiting_for(small, 3000, is_committed_only=True)
    small.partition.writer.write_marker(7, 0, is_commit=True, coordinator_epoch=1, transaction_version=1)
    small.flush()
    assert committed.is_over


def test_the_curious_are_told_once_of_what_concerns_them(small: SmallPartition) -> None:
    committed, safe = Listener(), Listener()
    for listener in (committed, safe):
        small.partition.watchers.add(listener)
        small.partition.watchers.arm(listener, is_committed_only=listener is committed)
    for sequence in range(3):
        send_transactional(small, sequence)
    assert (committed.heard, safe.heard) == (["readable"], ["readable"]), "what is told includes the high watermark"
    small.partition.writer.write_marker(7, 0, is_commit=True, coordinator_epoch=1, transaction_version=1)
    small.flush()
    assert committed.heard == ["readable", "stable"]


def test_unflushed_bytes_wake_nobody(small: SmallPartition) -> None:
    listener = Listener()
    small.partition.watchers.add(listener)
    small.partition.watchers.arm(listener, is_committed_only=False)
    waiting = waiting_for(small, 10, is_committed_only=False)
    small.send(batch_of(value_bytes=1000))
    assert (listener.heard, waiting.is_over) == ([], False)
    small.flush()
    assert (listener.heard, waiting.is_over) == (["readable"], True)


def test_nothing_is_counted_once_nobody_listens(small: SmallPartition) -> None:
    listener = Listener()
    small.partition.watchers.add(listener)
    waiting_for(small, 1 << 30, is_committed_only=False)
    assert small.partition.watchers.byte_waits is not None
    small.partition.watchers.remove(listener)
    assert small.partition.watchers.byte_waits is None


def test_a_new_leader_begins_to_count_anew(small: SmallPartition) -> None:
    small.partition.watchers.add(Listener())
    waiting_for(small, 1 << 30, is_committed_only=False)
    small.partition.follow(Epoch(1), NodeId(2), [NODE, NodeId(2)])
    assert small.partition.watchers.byte_waits is None
