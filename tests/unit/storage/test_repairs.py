"""What takes long is done beside the loop: readers and writers hear that it is not yet there, and ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import DiskFailure, Refusal
from headrace.simulation.environment.device import Operation
from headrace.storage.files.damage import DamagedLog
from headrace.storage.log.repairs import NotYet
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.storage.small_logs import FIRST_MS, append, batch_at, log_of, marker_at, read, read_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.log.repairs import Repair

BATCHES = 40


def forget_index(log: PartitionLog, number: int) -> None:
    """Its file is gone, and then memory needs the room."""
    for path in log.segments[number].index_paths:
        log.disk.remove(path)
    log.segments[number].unload_index()
    log.segments[number].max_timestamp = None


def do(repairs: list[Repair]) -> None:
    while repairs:
        repair = repairs.pop()
        repair.run()
        repair.finish()


ASKERS: dict[str, Callable[[PartitionLog], object]] = {
    "fetch": lambda log: read(log, 3, 300),
    "where the log begins": lambda log: log.reader.first_batch_offset(),
    "retention": lambda log: log.retention.delete_expired(FIRST_MS),
    "compaction's choice": lambda log: log.compaction.sealed_segments(times_from=0),
}


@pytest.mark.parametrize("asker", ASKERS)
def test_a_lost_index_is_made_beside_the_loop(simulated: SimulatedDisk, asker: str) -> None:
    log = log_of(simulated, BATCHES)
    log.high_watermark = log.next_offset
    log.settings = LogSettings(segment_bytes=1000, index_interval_bytes=150, retention_ms=10**9)
    log.retention.advance_start(3)
    repairs: list[Repair] = []
    log.repair_beside(repairs.append)
    forget_index(log, 0)
    with pytest.raises(NotYet):
        ASKERS[asker](log)
    assert log.segments[0].index is None, "nothing is made where others wait"
    do(repairs)
    ASKERS[asker](log)
    assert simulated.exists(log.segments[0].index_paths[0])
    assert not repairs
    assert [header.base_offset for header in read_all(log)] == list(range(3, BATCHES))


def test_a_lost_index_of_aborted_transactions_is_made_beside_the_loop(simulated: SimulatedDisk) -> None:
    log = log_of(simulated, 3)
    append(log, batch_at(3, producer_id=7, sequence=0, is_transactional=True))
    append(log, marker_at(4, 7, Marker(is_commit=False, coordinator_epoch=0)))
    log.roll()
    log.segments[0].aborted.entries = None
    simulated.remove(log.segments[0].aborted.path)
    repairs: list[Repair] = []
    log.repair_beside(repairs.append)
    with pytest.raises(NotYet):
        log.transaction_indexes.aborted_between(0, 5)
    assert log.segments[0].aborted.entries is None
    do(repairs)
    assert [it.producer_id for it in log.transaction_indexes.aborted_between(0, 5)] == [7]


def test_what_was_made_for_a_segment_that_is_gone_is_dropped(simulated: SimulatedDisk) -> None:
    log = log_of(simulated, BATCHES)
    repairs: list[Repair] = []
    log.repair_beside(repairs.append)
    lost = log.segments[1]
    forget_index(log, 1)
    with pytest.raises(NotYet):
        read(log, lost.base_offset + 2, 300)
    (repair,) = repairs
    repair.run()
    log.truncate(3)
    repair.finish()
    assert lost.index is None
    assert not simulated.exists(lost.index_paths[0])


def test_an_index_that_cannot_be_made_is_damage(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, BATCHES)
    repairs: list[Repair] = []
    log.repair_beside(repairs.append)
    forget_index(log, 0)
    with pytest.raises(NotYet):
        read(log, 3, 300)
    device.spoil(log.segments[0].log_path, 0)
    (repair,) = repairs
    with pytest.raises(DamagedLog, match="the disk cannot read it"):
        repair.run()
    repair.finish()
    assert log.segments[0].index is None


def test_nothing_takes_the_place_of_half_a_batch_before_that_is_gone_for_good(
    simulated: SimulatedDisk, device: Device
) -> None:
    log = log_of(simulated, 5)
    repairs: list[Repair] = []
    syncs: list[str] = []
    device.watch(lambda operation, path: syncs.append(path) if operation is Operation.SYNC else None)
    log.repair_beside(repairs.append)
    device.capacity_bytes = device.used_bytes + 50
    while not repairs:  # how much of it a full disk takes is left to chance
        with pytest.raises(Refusal, match="the disk is full"):
            append(log, batch_at(5, value_bytes=300))
    assert syncs == [], "nobody waits for the device on the loop"
    device.capacity_bytes = None
    with pytest.raises(Refusal, match="the disk is full"):
        append(log, batch_at(5))
    do(repairs)
    assert syncs == [log.segments[0].log_path]
    append(log, batch_at(5))
    assert [header.base_offset for header in read_all(log)] == list(range(6))
    assert not any(segment.file is not None and segment.file.is_leased for segment in log.segments)


def test_a_disk_that_cannot_make_it_safe_has_failed(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, 5)
    repairs: list[Repair] = []
    log.repair_beside(repairs.append)
    device.capacity_bytes = device.used_bytes + 50
    while not repairs:
        with pytest.raises(Refusal, match="the disk is full"):
            append(log, batch_at(5, value_bytes=300))
    device.capacity_bytes = None
    device.fail(Operation.SYNC)
    (repair,) = repairs
    with pytest.raises(DiskFailure):
        repair.run()
    repair.finish()
    with pytest.raises(Refusal):
        append(log, batch_at(5))
