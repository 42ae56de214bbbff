"""What a partition shows and gives up: nothing that is not committed, and nothing that it no longer has."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.deletion import delete_records
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, Epoch, NodeId, Offset
from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files.damage import DamagedLog
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.broker.small_partitions import NODE, SmallPartition, batch_of
from tests.unit.storage.small_logs import append, batch_at, marker_at, new_log, reopened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = LogSettings(segment_ms=1 << 60, retention_ms=None)
OTHER = NodeId(2)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    yield SmallPartition(new_log(disk, SETTINGS), disk)
    disk.close()


@pytest.mark.parametrize("before", [4, 5, 6])
def test_records_that_are_not_committed_cannot_be_deleted(small: SmallPartition, before: int) -> None:
    """A failover may replace them, and what takes their place was not meant."""
    small.send(batch_of(3))
    small.flush()
    small.send(batch_of(2))
    with pytest.raises(Refusal) as refused:
        delete_records(small.partition, Offset(before))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert small.log.start_offset == 0
    assert delete_records(small.partition, Offset(3)) == 3


def test_what_was_cut_off_is_not_committed_any_more(small: SmallPartition) -> None:
    """An operator let another node lead that has less."""
    for _ in range(5):
        small.send(batch_of())
    small.flush()
    small.partition.follow(Epoch(1), OTHER, [OTHER, NODE])
    small.log.truncate(2)
    small.partition.follower_writer.was_cut()
    places = (small.partition.high_watermark, small.partition.last_stable_offset, small.log.high_watermark)
    assert places == (2, 2, 2)


def test_readers_of_committed_records_do_not_pass_the_watermark(small: SmallPartition) -> None:
    """An open transaction may begin beyond it."""
    small.send(batch_of(3))
    ticket = small.log.flushing.begin()
    assert ticket is not None
    ticket.sync(small.disk)
    small.send(batch_of(2))
    small.send(batch_of(producer_id=7, epoch=0, sequence=0, is_transactional=True))
    small.log.flushing.finish(ticket)
    small.partition.flushed()
    assert (small.partition.high_watermark, small.partition.last_stable_offset) == (3, 3)


def test_a_read_that_fails_on_its_way_holds_no_file() -> None:
    """Aborted transactions are looked up after the records were found. If the disk fails then, nobody gets these."""
    device = Device(Random(1))
    disk = SimulatedDisk(device)
    log = new_log(disk, SETTINGS)
    append(log, batch_at(0, producer_id=7, sequence=0, is_transactional=True))
    append(log, marker_at(1, 7, Marker(is_commit=False, coordinator_epoch=0)))
    log.roll()
    append(log, batch_at(2))
    log = reopened(log)
    small = SmallPartition(log, disk, leader_epoch=1)
    small.flush()

    def read() -> int:
        readable = small.partition.read(
            Offset(0), 1 << 20, at_least_one=True, leader_epoch=NO_EPOCH, is_committed_only=True
        )
        assert readable.records is not None
        readable.records.release()
        return len(readable.aborted)

    device.fail(Operation.READ, log.segments[0].aborted.path)
    device.fail(Operation.READ, log.segments[0].log_path)  # from which the other would be made anew
    with pytest.raises(DamagedLog, match="Input/output error"):
        read()
    assert [segment for segment in log.segments if segment.file is not None and segment.file.is_leased] == []
    assert read() == 1
