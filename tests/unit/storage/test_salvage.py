"""What is left of a log is found, whatever has befallen it, and nothing on the disk is changed by looking."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import ReadFault
from headrace.runtime.overlay_disk import OverlayDisk, OverlayFile
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedRange
from headrace.storage.integrity.batch_walk import BLOCK_BYTES
from headrace.storage.integrity.salvage import TornEnd, WholeBatch, find_log, look_at_end, read_through, whole_batches
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.storage.small_logs import DIRECTORY, append, batch_at, log_of, marker_at, new_log

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.disk import Disk, SystemDisk
    from headrace.storage.integrity.salvage import FoundLog
    from headrace.storage.log.partition_log import PartitionLog

COUNT = 40
BATCH_BYTES = len(batch_at(0))
ONE_SEGMENT = LogSettings(segment_bytes=1 << 20, index_interval_bytes=150, retention_ms=None)


def closed(log: PartitionLog) -> PartitionLog:
    log.close(is_clean=True)
    return log


def looked_at(tmp_path: Path, safe_offset: int = COUNT, start_offset: int = 0) -> tuple[Disk, FoundLog]:
    disk = OverlayDisk(tmp_path, is_ours=True)
    return disk, find_log(disk, DIRECTORY, start_offset, safe_offset)


def offsets(disk: Disk, log: FoundLog) -> list[int]:
    return [found.header.base_offset for found in whole_batches(disk, log) if isinstance(found, WholeBatch)]


def damaged(disk: Disk, log: FoundLog) -> list[tuple[int, int]]:
    found = whole_batches(disk, log)
    return [(it.first_offset, it.end_offset) for it in found if isinstance(it, DamagedRange)]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_a_whole_log_is_read_to_its_end(disk: SystemDisk, tmp_path: Path) -> None:
    assert len(closed(log_of(disk, COUNT, epoch=7)).segments) > 3
    looked, log = looked_at(tmp_path)
    assert offsets(looked, log) == list(range(COUNT))
    for survey in (read_through(looked, log), look_at_end(looked, log)):
        assert (survey.start_offset, survey.end_offset, survey.last_epoch) == (0, COUNT, 7)
        assert not survey.damaged
        assert survey.torn is None
    read_bytes: list[int] = []
    read_through(looked, log, read_bytes.append)
    assert sum(read_bytes) == log.size


def test_an_empty_log_and_an_empty_directory_have_an_end(disk: SystemDisk, tmp_path: Path) -> None:
    closed(new_log(disk))
    looked, log = looked_at(tmp_path, safe_offset=0)
    assert (look_at_end(looked, log).end_offset, offsets(looked, log)) == (0, [])
    (tmp_path / f"{layout.stem(DIRECTORY, 0)}.log").unlink()
    looked, log = looked_at(tmp_path, safe_offset=5)
    assert [(it.first_offset, it.end_offset) for it in look_at_end(looked, log).damaged] == [(0, 5)]
    assert damaged(looked, log) == [(0, 5)]


def test_damage_in_the_middle_costs_the_damaged_batch_alone(disk: SystemDisk, tmp_path: Path) -> None:
    log = closed(log_of(disk, COUNT))
    victim = log.segments[1]
    flip(tmp_path / victim.log_path, 2 * BATCH_BYTES + 70)
    looked, found = looked_at(tmp_path)
    lost = victim.base_offset + 2
    assert damaged(looked, found) == [(lost, lost + 1)]
    assert offsets(looked, found) == [offset for offset in range(COUNT) if offset != lost]
    survey = read_through(looked, found)
    assert survey.end_offset == COUNT
    assert survey.is_verified


def test_a_segment_that_is_gone_is_told_and_the_others_are_read(disk: SystemDisk, tmp_path: Path) -> None:
    log = closed(log_of(disk, COUNT))
    first, gone, after = log.segments[0].base_offset, log.segments[1], log.segments[2].base_offset
    (tmp_path / gone.log_path).unlink()
    looked, found = looked_at(tmp_path)
    assert damaged(looked, found) == [(gone.base_offset, after)]
    assert offsets(looked, found) == [*range(first, gone.base_offset), *range(after, COUNT)]


def test_a_torn_end_is_told_and_not_cut(disk: SystemDisk, tmp_path: Path) -> None:
    log = closed(log_of(disk, COUNT))
    last = tmp_path / log.segments[-1].log_path
    last.write_bytes(last.read_bytes() + bytes(batch_at(COUNT))[:-5])
    before = last.read_bytes()
    looked, found = looked_at(tmp_path)
    for survey in (read_through(looked, found), look_at_end(looked, found)):
        assert survey.torn == TornEnd(log.segments[-1].log_path, log.segments[-1].size, COUNT, BATCH_BYTES - 5)
        assert (survey.end_offset, survey.damaged) == (COUNT, [])
    assert last.read_bytes() == before


def test_what_was_once_flushed_is_damaged_and_not_torn(disk: SystemDisk, tmp_path: Path) -> None:
    """Without this, an end that a disk has lost would pass for one that was never there."""
    log = closed(log_of(disk, COUNT))
    last = tmp_path / log.segments[-1].log_path
    last.write_bytes(last.read_bytes()[: -BATCH_BYTES - 5])
    looked, found = looked_at(tmp_path)
    assert damaged(looked, found) == [(COUNT - 2, COUNT)]
    for survey in (read_through(looked, found), look_at_end(looked, found)):
        assert survey.torn is None
        assert [(it.first_offset, it.end_offset) for it in survey.damaged] == [(COUNT - 2, COUNT)]


def test_what_was_deleted_is_not_part_of_the_log(disk: SystemDisk, tmp_path: Path) -> None:
    log = closed(log_of(disk, COUNT))
    start = log.segments[2].base_offset + 1
    looked, found = looked_at(tmp_path, start_offset=start)
    assert [segment.base_offset for segment in found.segments] == [it.base_offset for it in log.segments[2:]]
    assert look_at_end(looked, found).start_offset == start


@pytest.mark.parametrize("ending", [layout.INDEX, layout.TIME_INDEX])
def test_the_end_is_found_also_without_an_index_or_with_a_wrong_one(
    disk: SystemDisk, tmp_path: Path, ending: str
) -> None:
    log = closed(log_of(disk, COUNT, settings=ONE_SEGMENT))
    index = tmp_path / (log.segments[-1].stem + ending)
    index.write_bytes(b"\x00\x00\x00\x09\x00\x00\x01\x01" + index.read_bytes()[8:][::-1])
    looked, found = looked_at(tmp_path)
    assert look_at_end(looked, found).end_offset == COUNT
    index.unlink()
    assert look_at_end(looked, found).end_offset == COUNT


def test_transactions_are_followed_to_their_markers(disk: SystemDisk, tmp_path: Path) -> None:
    log = new_log(disk)
    append(log, batch_at(0, producer_id=7, sequence=0, is_transactional=True))
    append(log, batch_at(1, producer_id=8, sequence=0, is_transactional=True))
    append(log, marker_at(2, 7, Marker(is_commit=False, coordinator_epoch=0)))
    append(log, batch_at(3, producer_id=7, sequence=1, is_transactional=True))
    append(log, marker_at(4, 8, Marker(is_commit=True, coordinator_epoch=0)))
    closed(log)
    survey = read_through(*looked_at(tmp_path, safe_offset=5))
    assert [(it.producer_id, it.first_offset, it.marker_offset) for it in survey.aborted] == [(7, 0, 2)]
    assert survey.open_transactions == {7: 3}


def test_an_interrupted_compaction_is_completed_for_the_reader_alone(disk: SystemDisk, tmp_path: Path) -> None:
    log = closed(log_of(disk, COUNT))
    first, second, third = log.segments[:3]
    stem = tmp_path / layout.stem(DIRECTORY, first.base_offset)
    cleaned = bytes(batch_at(first.base_offset)) + bytes(batch_at(third.base_offset - 1))
    stem.with_name(stem.name + ".log.cleaned").write_bytes(cleaned)
    swap = layout.swap_name((first.base_offset, third.base_offset))
    (tmp_path / DIRECTORY / swap).touch()
    (tmp_path / DIRECTORY / layout.COMPACTED).write_text("0\n0 0\n")
    names = sorted(path.name for path in (tmp_path / DIRECTORY).iterdir())
    looked, found = looked_at(tmp_path)
    assert second.base_offset not in [segment.base_offset for segment in found.segments]
    assert offsets(looked, found) == [0, third.base_offset - 1, *range(third.base_offset, COUNT)]
    assert damaged(looked, found) == []
    assert sorted(path.name for path in (tmp_path / DIRECTORY).iterdir()) == names


def test_what_the_disk_cannot_read_costs_what_lies_in_those_sectors_alone(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(log_of(disk, 200, settings=ONE_SEGMENT))
    looked, found = looked_at(tmp_path, safe_offset=200)
    bad = 2 * BLOCK_BYTES
    read = OverlayFile.read

    def refuse(file: OverlayFile, position: int, size: int) -> bytes:
        if position <= bad < position + size:
            raise ReadFault(OSError(errno.EIO, "Input/output error"), "the file")
        return read(file, position, size)

    monkeypatch.setattr(OverlayFile, "read", refuse)
    (lost,) = [it for it in whole_batches(looked, found) if isinstance(it, DamagedRange)]
    assert lost.problem == "the disk cannot read it"
    assert lost.first_offset == bad // BATCH_BYTES
    assert lost.end_offset * BATCH_BYTES - (bad + BLOCK_BYTES) < BATCH_BYTES, "whole batches behind it are lost as well"
    assert offsets(looked, found) == [*range(lost.first_offset), *range(lost.end_offset, 200)]


def test_an_end_that_the_disk_cannot_read_is_damaged_and_not_torn(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(log_of(disk, 5, settings=ONE_SEGMENT))
    looked, found = looked_at(tmp_path, safe_offset=0)

    def refuse(_file: OverlayFile, _position: int, _size: int) -> bytes:
        raise ReadFault(OSError(errno.EIO, "Input/output error"), "the file")

    monkeypatch.setattr(OverlayFile, "read", refuse)
    assert damaged(looked, found) == [(0, 1)]
