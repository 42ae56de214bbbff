from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import DiskFailure, ErrorCode, Refusal
from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Operation, os_error
from headrace.storage.files import layout
from tests.unit.storage.small_logs import DIRECTORY, FIRST_MS, SETTINGS, append, batch_at, log_of, read_all, reopened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog

MIB = 1 << 20
LATER_MS = FIRST_MS + 1_000_000


def facts(log: PartitionLog) -> tuple[object, ...]:
    return (
        log.next_offset,
        log.size_bytes,
        len(log.segments),
        log.epochs.entries,
        log.producers.entries(),
        [header.base_offset for header in read_all(log)],
    )


@pytest.mark.parametrize("batch_count", [1, 3, 30])
@pytest.mark.parametrize("room", [0, 50, 700])
def test_a_full_disk_refuses_and_changes_nothing(
    device: Device, simulated: SimulatedDisk, batch_count: int, room: int
) -> None:
    log = log_of(simulated, 15)
    before = facts(log)
    device.capacity_bytes = device.used_bytes + room
    batches = [
        batch_at(15 + n, epoch=1, producer_id=4, sequence=n, value_bytes=700 // batch_count) for n in range(batch_count)
    ]
    with pytest.raises(Refusal, match="the disk is full") as refusal:
        append(log, *batches)
    assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert facts(log) == before
    device.capacity_bytes = None
    append(log, *batches)
    assert log.next_offset == 15 + batch_count
    assert [header.base_offset for header in read_all(reopened(log))] == list(range(15 + batch_count))


def test_a_slice_survives_a_refused_append(device: Device, simulated: SimulatedDisk) -> None:
    log = log_of(simulated, 5)
    piece = log.read(0, MIB, 5, at_least_one=True)
    assert piece is not None
    device.capacity_bytes = device.used_bytes + 50
    with pytest.raises(Refusal):
        append(log, batch_at(5, value_bytes=300))
    assert piece.is_current
    piece.release()


def test_a_log_rolls_on_a_full_disk_even_if_its_index_cannot_be_saved(device: Device, simulated: SimulatedDisk) -> None:
    log = log_of(simulated, 9)
    device.capacity_bytes = device.used_bytes
    log.roll()
    device.capacity_bytes = None
    append(log, batch_at(9))
    log = reopened(log, is_clean=False)
    assert [header.base_offset for header in read_all(log)] == list(range(10))


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.CREATE])
def test_any_other_error_is_a_disk_failure(device: Device, simulated: SimulatedDisk, operation: Operation) -> None:
    log = log_of(simulated, 5)
    batches = [batch_at(offset) for offset in range(5, 40)]  # enough for a new segment
    device.fail(operation, "topics")
    with pytest.raises(DiskFailure, match="refused"):
        append(log, *batches)


# What is deleted or cut on a full disk


def given_up(log: PartitionLog) -> PartitionLog:
    """Every record of it is deleted, but no file yet."""
    log.high_watermark = log.next_offset
    log.retention.advance_start(log.next_offset)
    return log


def remove_garbage(log: PartitionLog) -> None:
    for path in log.retention.take_garbage():
        log.disk.remove(path)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_full_disk_deletes_without_forgetting_producers(
    device: Device, simulated: SimulatedDisk, is_clean: bool
) -> None:
    """No batch tells of it afterwards: what it sends again would be taken for new."""
    log = given_up(log_of(simulated, 30, producer_id=1, sequence=0))
    device.capacity_bytes = device.used_bytes
    assert log.retention.delete_expired(0)
    remove_garbage(log)
    device.capacity_bytes = None
    log = reopened(log, is_clean=is_clean)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (30, 30, 0)
    assert log.producers.get(1) is not None


def test_the_indexes_of_what_is_deleted_make_room_for_its_producers(device: Device, simulated: SimulatedDisk) -> None:
    log = log_of(simulated, 100, replace(SETTINGS, segment_bytes=MIB), producer_id=1, sequence=0)
    device.fail(Operation.CREATE, layout.stem(DIRECTORY, 100) + layout.SNAPSHOT, code=errno.ENOSPC)
    log.roll()
    device.capacity_bytes = device.used_bytes
    assert given_up(log).retention.delete_expired(0) == [0]
    remove_garbage(log)
    assert reopened(log, is_clean=False).producers.get(1) is not None


def test_a_deletion_waits_for_room_to_remember_the_producers(device: Device, simulated: SimulatedDisk) -> None:
    def refuse_snapshots(operation: Operation, path: str) -> None:
        if operation is Operation.CREATE and path.endswith(layout.SNAPSHOT):
            raise os_error(errno.ENOSPC, path)

    log = log_of(simulated, 5, replace(SETTINGS, retention_ms=0), producer_id=1, sequence=0)
    log.high_watermark = 5
    device.watch(refuse_snapshots)
    assert log.retention.delete_expired(LATER_MS) == []
    assert log.retention.take_garbage() == []
    log = reopened(log, is_clean=False)
    assert log.producers.get(1) is not None
    device.unwatch(refuse_snapshots)
    log.high_watermark = 5
    assert log.retention.delete_expired(LATER_MS) == [0]
    remove_garbage(log)
    assert reopened(log, is_clean=False).producers.get(1) is not None


def test_a_stop_saves_the_producers_of_a_log_without_a_record(device: Device, simulated: SimulatedDisk) -> None:
    """When it was cut there was no room for them, and their last batch had been deleted long before."""
    log = given_up(log_of(simulated, 30, producer_id=1, sequence=0))
    assert log.retention.delete_expired(0)
    remove_garbage(log)
    append(log, batch_at(30))
    snapshot = layout.stem(DIRECTORY, 30) + layout.SNAPSHOT
    device.fail(Operation.CREATE, snapshot, code=errno.ENOSPC)
    log.truncate(30)
    assert not simulated.exists(snapshot)
    log = reopened(log)
    assert log.size_bytes == 0
    assert log.producers.get(1) is not None


def test_a_start_waits_for_room_to_remember_the_producers_of_what_is_deleted(
    device: Device, simulated: SimulatedDisk
) -> None:
    log = log_of(simulated, 5, producer_id=1, sequence=0)
    device.capacity_bytes = device.used_bytes
    log.roll()
    log.high_watermark = 5
    log.retention.advance_start(5)
    with pytest.raises(OSError, match="no room to remember"):
        reopened(log, is_clean=False)
    device.capacity_bytes = None
    log = reopened(log, is_clean=False)
    assert (log.start_offset, log.next_offset) == (5, 5)
    assert log.producers.get(1) is not None


def test_a_cut_that_cannot_begin_again_is_no_mere_refusal(device: Device, simulated: SimulatedDisk) -> None:
    """Whoever is refused goes on with the log as it was, and here nothing is left of it."""
    log = log_of(simulated, 30)
    device.fail(Operation.CREATE, DIRECTORY, code=errno.ENOSPC)
    with pytest.raises(DiskFailure, match="cannot begin again: the disk is full"):
        log.truncate(0)


@pytest.fixture
def tiny_file_system(tmp_path: Path) -> Iterator[SystemDisk]:
    """A real file system of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    disk = SystemDisk(tmp_path)
    yield disk
    disk.close()
    subprocess.run(["umount", tmp_path], check=True)


def test_a_real_full_disk_refuses_keeps_serving_and_resumes(tiny_file_system: SystemDisk) -> None:
    log = log_of(tiny_file_system, 10)
    while tiny_file_system.free_bytes() > 100_000:
        append(log, batch_at(log.next_offset, value_bytes=50_000))
    count = log.next_offset
    assert len(read_all(log)) == count
    with pytest.raises(Refusal, match="the disk is full"):
        append(log, batch_at(count, value_bytes=200_000))
    log.high_watermark = count
    log.retention.advance_start(count - 1)
    assert log.retention.delete_expired(0)
    for path in log.retention.take_garbage():
        tiny_file_system.remove(path)
    append(log, batch_at(count, value_bytes=50_000))
    assert [header.base_offset for header in read_all(log)] == [count - 1, count]
    log.close()
