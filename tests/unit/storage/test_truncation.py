from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import DiskFailure, Refusal
from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Operation, os_error
from headrace.storage.settings import LogSettings
from tests.unit.storage.small_logs import append, batch_at, end_if_cut, log_of, new_log, read_all, reopened

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemFile
    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk


@pytest.mark.parametrize("offset", [0, 1, 7, 15, 39])
def test_everything_from_an_offset_on_is_cut(disk: SystemDisk, offset: int) -> None:
    log = log_of(disk, 40)
    log.truncate(offset)
    assert log.next_offset == offset
    assert [header.base_offset for header in read_all(log)] == list(range(offset))
    append(log, batch_at(offset, epoch=1))
    log = reopened(log, recovery_point=0, is_clean=False)
    assert [header.base_offset for header in read_all(log)] == list(range(offset + 1))
    assert log.epochs.latest == 1


def test_cutting_at_or_beyond_the_end_changes_nothing(disk: SystemDisk) -> None:
    log = log_of(disk, 10)
    log.truncate(10)
    log.truncate(11)
    assert log.next_offset == 10
    assert log.cuts == 0


def test_a_batch_is_cut_whole(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, count=4), batch_at(4, count=4))
    assert end_if_cut(log, 6) == 4
    log.truncate(6)
    assert log.next_offset == 4


def test_what_follows_the_cut_is_forgotten(disk: SystemDisk) -> None:
    log = new_log(disk)
    for offset in range(40):
        append(log, batch_at(offset, epoch=offset // 10, producer_id=offset // 5, sequence=offset % 5))
    log.high_watermark = log.flushed_offset = 40
    log.truncate(12)
    assert log.epochs.entries == ((0, 0), (1, 10))
    assert [producer.producer_id for producer in log.producers.entries()] == [0, 1, 2]
    assert log.producers.get(2) is not None
    assert log.producers.get(2).last_offset == 11  # type: ignore[union-attr]
    assert (log.high_watermark, log.flushed_offset) == (12, 12)
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 11


@pytest.mark.parametrize("offset", [3, 35])
def test_slices_of_what_was_cut_are_no_longer_current(disk: SystemDisk, offset: int) -> None:
    log = log_of(disk, 40)
    piece = log.read(36, 1 << 20, 40, at_least_one=True)
    assert piece is not None
    assert piece.is_current
    log.truncate(offset)
    assert not piece.is_current
    piece.release()


def test_slices_are_no_longer_current_before_their_file_is_cut(disk: SystemDisk) -> None:
    """The file is cut in a thread. Meanwhile a connection may be about to send what the log no longer has."""
    log = log_of(disk, 40, LogSettings(retention_ms=None))
    piece = log.read(36, 1 << 20, 40, at_least_one=True)
    assert piece is not None
    search = log.begin_truncation(35)
    assert search is not None
    files = log.apply_truncation(search.find())
    assert files is not None
    assert not piece.is_current
    piece.release()
    files.write()
    log.finish_truncation(files)


def test_cutting_below_the_start_leaves_an_empty_log_there(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    log.retention.advance_start(20)
    log.truncate(5)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (5, 5, 0)


def test_a_file_that_is_used_again_is_no_garbage(disk: SystemDisk) -> None:
    log = log_of(disk, 30)
    log.high_watermark = log.next_offset
    log.retention.advance_start(25)
    assert log.retention.delete_expired(0)
    log.truncate(0)
    append(log, batch_at(0))
    for path in log.retention.take_garbage():
        disk.remove(path)
    log.close()
    assert len(read_all(reopened(log))) == 1


def test_a_flush_that_a_cut_overtook_promises_nothing(disk: SystemDisk) -> None:
    log = log_of(disk, 10)
    ticket = log.flushing.begin()
    assert ticket is not None
    ticket.sync(disk)
    log.truncate(4)
    append(log, batch_at(4, epoch=1))
    log.flushing.finish(ticket)
    assert log.flushed_offset <= 4
    assert log.flushing.is_dirty


def test_a_cut_that_finds_no_descriptor_leaves_every_segment_and_producer(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(disk)
    for offset in range(40):
        append(log, batch_at(offset, producer_id=1, sequence=offset))
    log = reopened(log)
    last_to_stay, first_to_go = log.segments[1:3]
    honest_open = SystemDisk.open

    def refuse(disk: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        if path == last_to_stay.log_path:
            raise os_error(errno.EMFILE, path)
        return honest_open(disk, path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(SystemDisk, "open", refuse)
        with pytest.raises(Refusal, match="no file descriptor left"):
            log.truncate(first_to_go.base_offset)
    assert [header.base_offset for header in read_all(log)] == list(range(40))
    producer = log.producers.get(1)
    assert producer is not None
    assert producer.last_offset == 39
    assert log.cuts == 0
    log.truncate(first_to_go.base_offset)
    assert [header.base_offset for header in read_all(log)] == list(range(first_to_go.base_offset))


def test_a_log_whose_cut_failed_takes_no_more(device: Device, simulated: SimulatedDisk) -> None:
    """Its file is longer than it says: what comes next would be written behind what was cut off."""
    log = log_of(simulated, 40)
    device.fail(Operation.REMOVE)
    with pytest.raises(DiskFailure):
        log.truncate(21)
    with pytest.raises(DiskFailure):
        append(log, batch_at(21, epoch=1))
