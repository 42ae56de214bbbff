"""Segments that are in use are read through, and whatever is not as it was written is told and refused."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import ReadFault
from headrace.simulation.environment.device import Operation
from headrace.storage.files.damage import DamagedLog
from headrace.storage.integrity import segment_check
from headrace.storage.integrity.batch_walk import BLOCK_BYTES
from headrace.storage.integrity.segment_check import SegmentCheck
from headrace.storage.settings import LogSettings
from tests.unit.storage.small_logs import append, batch_at, log_of, new_log, read, read_all

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.disk import File, SystemDisk
    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.files.damage import DamagedRange
    from headrace.storage.log.partition_log import PartitionLog

BATCH_BYTES = len(batch_at(0))
EPOCH_BYTES = range(12, 16)
VICTIM = 3  # which batch of a segment
STEPS = (1, 250, 1 << 20)


def checked(log: PartitionLog, *, closed_only: bool = False, step_bytes: int = 1 << 20) -> list[DamagedRange]:
    found: list[DamagedRange] = []
    for span in log.spans.since(closed_only=closed_only):
        check = SegmentCheck(log.disk, span)
        while check.step(step_bytes):
            pass
        assert check.position == span.size
        found += check.damaged
    return found


def flip(tmp_path: Path, log: PartitionLog, segment: int, position: int, mask: int = 0x10) -> None:
    path = tmp_path / log.segments[segment].log_path
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


@pytest.mark.parametrize("step_bytes", STEPS)
def test_what_is_whole_is_found_whole(disk: SystemDisk, step_bytes: int) -> None:
    log = log_of(disk, 40)
    assert len(log.segments) > 3
    assert checked(log, step_bytes=step_bytes) == []


def test_the_background_leaves_alone_what_is_written_to(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    closed = log.spans.since(closed_only=True)
    assert [span.base_offset for span in closed] == [segment.base_offset for segment in log.segments[:-1]]
    assert [span.end_offset for span in closed] == [segment.base_offset for segment in log.segments[1:]]
    assert log.spans.since(closed[1].end_offset, closed_only=True) == closed[2:]
    assert new_log(disk).spans.since(closed_only=False) == []


def test_what_is_written_to_is_checked_up_to_its_flushed_end(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, 5)
    assert log.spans.flushed() is None
    ticket = log.flushing.begin()
    assert ticket is not None
    ticket.sync(simulated)
    log.flushing.finish(ticket)
    append(log, batch_at(5))
    span = log.spans.flushed()
    assert span is not None
    assert (span.base_offset, span.end_offset, span.size) == (0, 5, 5 * BATCH_BYTES)
    device.spoil(span.path, BATCH_BYTES)
    check = SegmentCheck(simulated, span)
    while check.step(1 << 20):
        pass
    (found,) = check.damaged
    assert "the disk cannot read it" in found.problem


@pytest.mark.parametrize("step_bytes", STEPS)
def test_whichever_byte_is_flipped_the_batch_is_found_and_refused(
    disk: SystemDisk, tmp_path: Path, step_bytes: int
) -> None:
    log = log_of(disk, 40)
    first = log.segments[1].base_offset
    for byte in (*range(EPOCH_BYTES.start), *range(EPOCH_BYTES.stop, BATCH_BYTES)):
        for mask in (0x01, 0x80):
            flip(tmp_path, log, 1, VICTIM * BATCH_BYTES + byte, mask)
            (found,) = checked(log, closed_only=True, step_bytes=step_bytes)
            assert (found.first_offset, found.position) == (first + VICTIM, VICTIM * BATCH_BYTES)
            assert found.end_offset == first + VICTIM + 1
            flip(tmp_path, log, 1, VICTIM * BATCH_BYTES + byte, mask)
    assert checked(log) == []


def test_an_epoch_that_no_crc_covers_is_found_by_its_neighbours(disk: SystemDisk, tmp_path: Path) -> None:
    log = log_of(disk, 40)
    for byte in EPOCH_BYTES:
        flip(tmp_path, log, 1, VICTIM * BATCH_BYTES + byte, 0x80)
        assert checked(log)
        flip(tmp_path, log, 1, VICTIM * BATCH_BYTES + byte, 0x80)


def test_readers_get_all_but_the_damaged_batch(disk: SystemDisk, tmp_path: Path) -> None:
    log = log_of(disk, 40)
    victim = log.segments[1].base_offset + VICTIM
    flip(tmp_path, log, 1, VICTIM * BATCH_BYTES + 16)  # its header makes no sense any more
    for found in checked(log):
        assert log.damage.add(found)
        assert not log.damage.add(found)
    before = [header.base_offset for offset in range(victim) for header in read(log, offset)]
    assert max(before) == victim - 1
    with pytest.raises(DamagedLog, match="is damaged at byte"):
        read(log, victim)
    after = log.segments[2].base_offset
    assert len(read_all_from(log, after)) == 40 - after


def read_all_from(log: PartitionLog, offset: int) -> list[int]:
    log.retention.advance_start(offset)
    return [header.base_offset for header in read_all(log)]


def test_every_damaged_place_of_a_segment_is_told(disk: SystemDisk, tmp_path: Path) -> None:
    log = log_of(disk, 40)
    for batch in (0, 2, 3, 6):
        flip(tmp_path, log, 0, batch * BATCH_BYTES + 70)
    assert [(found.first_offset, found.end_offset) for found in checked(log)] == [(0, 1), (2, 4), (6, 7)]


def test_a_file_that_became_shorter_is_damaged_to_its_end(disk: SystemDisk, tmp_path: Path) -> None:
    log = log_of(disk, 40)
    path = tmp_path / log.segments[1].log_path
    path.write_bytes(path.read_bytes()[: 2 * BATCH_BYTES])
    (found,) = checked(log)
    assert found.first_offset == log.segments[1].base_offset + 2
    assert found.end_offset == log.segments[2].base_offset


def test_a_bad_sector_takes_the_batches_that_it_holds_and_no_others(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, 600, LogSettings(segment_bytes=20_000, index_interval_bytes=500, retention_ms=None))
    victim = log.segments[1]
    device.spoil(victim.log_path, 2 * BLOCK_BYTES)
    (found,) = checked(log)
    assert "the disk cannot read it" in found.problem
    assert found.first_offset == victim.base_offset + 2 * BLOCK_BYTES // BATCH_BYTES
    # The last one begins with the zeros of its offset, which are the same if they cannot be read.
    assert found.end_offset == victim.base_offset + 3 * BLOCK_BYTES // BATCH_BYTES


def test_a_device_that_is_dying_is_not_asked_for_every_block(
    simulated: SimulatedDisk, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_check, "BAD_BLOCKS_MAX", 2)
    log = log_of(simulated, 600, LogSettings(segment_bytes=20_000, index_interval_bytes=500, retention_ms=None))
    victim = log.segments[1]
    for block in range(victim.size // BLOCK_BYTES):
        device.spoil(victim.log_path, block * BLOCK_BYTES)
    (found,) = checked(log)
    assert (found.first_offset, found.end_offset) == (victim.base_offset, log.segments[2].base_offset)


def test_an_error_that_does_not_come_again_is_no_damage(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, 40)
    device.fail(Operation.READ, log.segments[1].log_path)
    assert checked(log) == []


def test_what_the_disk_cannot_open_is_damaged(simulated: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(simulated, 40)
    lost, really_open = log.segments[1], simulated.open

    def open_or_fail(path: str, *, create: bool = False) -> File:
        if path == lost.log_path:
            raise ReadFault(OSError(errno.EIO, "Input/output error"), path)
        return really_open(path, create=create)

    monkeypatch.setattr(simulated, "open", open_or_fail)
    (found,) = checked(log)
    assert (found.first_offset, found.end_offset) == (lost.base_offset, log.segments[2].base_offset)
    assert "the disk cannot read it" in found.problem


def test_a_file_that_is_removed_meanwhile_is_no_damage(disk: SystemDisk, tmp_path: Path) -> None:
    log = log_of(disk, 40)
    check = SegmentCheck(disk, log.spans.since(closed_only=True)[0])
    assert check.step(1)
    (tmp_path / log.segments[0].log_path).unlink()
    assert check.step(1 << 20) == 0
    assert check.is_gone
    assert not check.damaged
