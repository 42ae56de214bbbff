from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.simulation.environment.device import SECTOR, Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.recovery.job import RecoveryReport
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments.scan import headers_from
from headrace.storage.segments.segment_cache import SegmentCache
from tests.unit.storage.small_logs import (
    DIRECTORY,
    LOG_ID,
    SETTINGS,
    append,
    batch_at,
    log_of,
    new_log,
    read_all,
    reopened,
)

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk
    from headrace.storage.log.partition_log import PartitionLog

BATCH_BYTES = len(batch_at(0))
ROOMY = replace(SETTINGS, segment_bytes=1 << 20)


def recover(disk: SystemDisk, *, recovery_point: int = 0, start_offset: int = 0) -> tuple[PartitionLog, RecoveryReport]:
    return open_log(
        LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=recovery_point, start_offset=start_offset, is_synced=True
    )


def stem(base_offset: int) -> str:
    return layout.stem(DIRECTORY, base_offset)


def overwrite(disk: SystemDisk, path: str, position: int, content: bytes) -> None:
    whole = bytearray(disk.read_file(path))
    whole[position : position + len(content)] = content
    disk.write_file(path, bytes(whole))


def flip(disk: SystemDisk, path: str, position: int) -> None:
    overwrite(disk, path, position, bytes([disk.read_file(path)[position] ^ 0x10]))


def offsets_in(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in read_all(log)]


def crashed_log(disk: SystemDisk, batch_count: int = 8, settings: object = ROOMY) -> str:
    """A log whose process was killed; the path of its first file."""
    log_of(disk, batch_count, settings).close(is_clean=False)  # type: ignore[arg-type]
    return stem(0) + layout.LOG


# Opening what is whole


@pytest.mark.parametrize("batch_count", [0, 1, 5, 40])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_whole_log_is_opened_as_it_was(disk: SystemDisk, batch_count: int, is_clean: bool) -> None:
    log = log_of(disk, batch_count, producer_id=3, sequence=0, epoch=4)
    was = (log.next_offset, log.size_bytes, log.epochs.entries, log.producers.entries(), offsets_in(log))
    newest = log.max_timestamp()
    log = reopened(log, recovery_point=None if is_clean else 0, is_clean=is_clean)
    assert (log.next_offset, log.size_bytes, log.epochs.entries, log.producers.entries(), offsets_in(log)) == was
    assert log.max_timestamp() == newest
    append(log, batch_at(batch_count, epoch=4))
    assert offsets_in(log) == [*was[4], batch_count]


def test_after_a_clean_shutdown_nothing_is_verified(disk: SystemDisk) -> None:
    log_of(disk, 40).close()
    log, report = recover(disk, recovery_point=40)
    assert report == RecoveryReport(LOG_ID)
    assert log.flushed_offset == 40


def test_after_a_crash_everything_from_the_recovery_point_on_is_verified(disk: SystemDisk) -> None:
    crashed_log(disk, 40, SETTINGS)
    _, report = recover(disk, recovery_point=25)
    assert report.verified_batches == 15
    assert report.verified_bytes == 15 * BATCH_BYTES
    assert report.notes == []


def test_what_only_memory_may_hold_is_not_called_flushed(disk: SystemDisk) -> None:
    crashed_log(disk, 40, SETTINGS)
    log, _ = open_log(LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=25)
    assert (log.flushed_offset, log.next_offset) == (25, 40)
    ticket = log.flushing.begin()
    assert ticket is not None
    ticket.sync(disk)
    log.flushing.finish(ticket)
    assert log.flushed_offset == 40
    assert not log.flushing.is_dirty


def test_indexes_after_recovery_are_those_that_were_written(disk: SystemDisk) -> None:
    log_of(disk, 40).close()
    names = [name for name in disk.list(DIRECTORY) if name.endswith("index")]
    written = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in names}
    assert any(written.values())
    for name in names:
        disk.remove(f"{DIRECTORY}/{name}")
    log, _ = recover(disk)
    log.close()
    assert {name: disk.read_file(f"{DIRECTORY}/{name}") for name in names} == written


# Torn tails


@pytest.mark.parametrize("lost_bytes", [1, 30, 60, 61, BATCH_BYTES - 1])
def test_half_a_batch_at_the_end_is_cut(disk: SystemDisk, lost_bytes: int) -> None:
    path = crashed_log(disk)
    whole = disk.read_file(path)
    disk.write_file(path, whole[:-lost_bytes])
    log, report = recover(disk)
    assert log.next_offset == 7
    assert offsets_in(log) == list(range(7))
    assert report.cut_bytes == BATCH_BYTES - lost_bytes
    assert report.cut_kept_in == []
    assert "was cut at byte" in report.notes[0]
    assert len(disk.read_file(path)) == 7 * BATCH_BYTES
    append(log, batch_at(7))
    assert offsets_in(log) == list(range(8))


@pytest.mark.parametrize("junk", [b"\0" * 700, b"\xff" * 100, b"\0" * 16 + b"\2" + b"\0" * 300])
def test_junk_at_the_end_is_cut(disk: SystemDisk, junk: bytes) -> None:
    path = crashed_log(disk)
    disk.write_file(path, disk.read_file(path) + junk)
    log, report = recover(disk, recovery_point=8)
    assert log.next_offset == 8
    assert report.cut_bytes == len(junk)


def test_a_last_batch_with_a_wrong_crc_is_cut(disk: SystemDisk) -> None:
    path = crashed_log(disk)
    flip(disk, path, 8 * BATCH_BYTES - 3)
    log, report = recover(disk)
    assert log.next_offset == 7
    assert "CRC" in report.notes[0]


# Lost writes


def large_batches(disk: SystemDisk) -> str:
    log = new_log(disk, ROOMY)
    for offset in range(6):
        append(log, batch_at(offset, value_bytes=2000))
    log.close(is_clean=False)
    return stem(0) + layout.LOG


def test_a_sector_that_was_never_written_is_cut_with_what_follows_and_kept(disk: SystemDisk) -> None:
    path = large_batches(disk)
    size = len(disk.read_file(path)) // 6
    whole = disk.read_file(path)
    overwrite(disk, path, 5 * 512, bytes(512))  # inside batch 1
    damaged = disk.read_file(path)
    log, report = recover(disk)
    assert log.next_offset == 1
    assert report.cut_kept_in == [stem(0) + layout.CUT]
    assert disk.read_file(stem(0) + layout.CUT) == damaged[size:]
    assert disk.read_file(path) == whole[:size]
    assert "never flushed" in report.notes[0]


def test_the_short_last_sector_of_a_segment_can_be_lost_too(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, value_bytes=1500))
    append(log, batch_at(1, value_bytes=1500))
    log.close(is_clean=False)
    path = stem(0) + layout.LOG
    size = len(disk.read_file(path))
    overwrite(disk, path, size - size % 512, bytes(size % 512))
    log, report = recover(disk)
    assert log.next_offset == 0
    assert report.cut_kept_in == [stem(0) + layout.CUT, stem(1) + layout.CUT]


def test_an_older_version_of_a_sector_is_a_lost_write(disk: SystemDisk) -> None:
    path = crashed_log(disk, 30)
    position = 4 * BATCH_BYTES
    overwrite(disk, path, position, bytes(512 - position % 512))
    log, report = recover(disk)
    assert log.next_offset == 4
    assert report.cut_kept_in


def test_a_segment_that_ends_early_is_a_lost_write(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    second = log.segments[1].base_offset
    log.close(is_clean=False)
    path = stem(0) + layout.LOG
    disk.write_file(path, disk.read_file(path)[: -BATCH_BYTES - 5])
    log, report = recover(disk)
    assert log.next_offset == second - 2
    assert len(report.cut_kept_in) > 2
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == [stem(0).rpartition("/")[2] + ".log"]


def test_few_copies_of_cut_bytes_are_kept(disk: SystemDisk) -> None:
    log_of(disk, 90).close(is_clean=False)
    path = stem(0) + layout.LOG
    disk.write_file(path, disk.read_file(path)[:-5])
    recover(disk)
    assert len([name for name in disk.list(DIRECTORY) if name.endswith(layout.CUT)]) == 4


# Damage


@pytest.mark.parametrize("position", [3, 10, 16, 18, 30, BATCH_BYTES - 2])
def test_damage_in_the_middle_is_never_cut(disk: SystemDisk, position: int) -> None:
    path = crashed_log(disk)
    flip(disk, path, 3 * BATCH_BYTES + position)
    before = disk.read_file(path)
    with pytest.raises(DamagedLog, match=r"offset 3\).*whole batches follow.*Nothing was cut.*backup") as damage:
        recover(disk)
    assert damage.value.position == 3 * BATCH_BYTES
    assert path in str(damage.value)
    assert disk.read_file(path) == before


def test_damage_before_a_whole_segment_is_never_cut(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    last = log.segments[1].base_offset - 1
    log.close(is_clean=False)
    flip(disk, stem(0) + layout.LOG, last * BATCH_BYTES + 40)
    with pytest.raises(DamagedLog, match="later segments"):
        recover(disk)


def test_a_tail_that_was_flushed_is_never_cut(disk: SystemDisk) -> None:
    path = crashed_log(disk)
    disk.write_file(path, disk.read_file(path)[:-1])
    with pytest.raises(DamagedLog, match="below the recovery point"):
        recover(disk, recovery_point=8)


def test_missing_flushed_records_are_damage_also_if_the_log_begins_after_what_is_left(disk: SystemDisk) -> None:
    path = crashed_log(disk)
    disk.write_file(path, disk.read_file(path)[: 4 * BATCH_BYTES])
    with pytest.raises(DamagedLog, match="the log ends here, expected was everything up to offset 8"):
        recover(disk, recovery_point=8, start_offset=6)
    assert len(disk.read_file(path)) == 4 * BATCH_BYTES


def test_a_missing_segment_is_damage(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    missing = log.segments[1]
    log.close()
    disk.remove(missing.log_path)
    with pytest.raises(DamagedLog, match="next segment begins"):
        recover(disk, recovery_point=40)


def test_a_log_without_files_is_damage_if_it_had_records(disk: SystemDisk) -> None:
    log_of(disk, 3).close()
    disk.remove(stem(0) + layout.LOG)
    with pytest.raises(DamagedLog, match="missing"):
        recover(disk, recovery_point=3)


def test_an_epoch_that_falls_is_damage(disk: SystemDisk) -> None:
    log = new_log(disk, ROOMY)
    append(log, batch_at(0, epoch=3), batch_at(1, epoch=3), batch_at(2, epoch=3))
    log.close(is_clean=False)
    overwrite(disk, stem(0) + layout.LOG, BATCH_BYTES + 12, (2).to_bytes(4, "big"))
    with pytest.raises(DamagedLog, match="leader epoch 2 after 3"):
        recover(disk)


def test_reading_into_damage_says_so(disk: SystemDisk) -> None:
    log = log_of(disk, 8, replace(ROOMY, index_interval_bytes=1 << 20))
    flip(disk, stem(0) + layout.LOG, 3 * BATCH_BYTES + 16)
    with pytest.raises(DamagedLog, match=f"byte {3 * BATCH_BYTES}"):
        log.read(5, 100, 8, at_least_one=True)


# Hints that are gone or lie


@pytest.mark.parametrize("ending", [layout.INDEX, layout.TIME_INDEX])
@pytest.mark.parametrize("lie", ["missing", "empty", "odd", "zeros", "shifted", "foreign"])
@pytest.mark.parametrize("base_number", [0, 1, -1])
def test_an_index_that_lies_is_rebuilt(disk: SystemDisk, ending: str, lie: str, base_number: int) -> None:
    log = log_of(disk, 40)
    path = log.segments[base_number].stem + ending
    other = log.segments[2 if base_number == 1 else 1].stem + ending
    expected = [log.find_timestamp(header.max_timestamp) for header in read_all(log)]
    log.close()
    content = disk.read_file(path)
    assert content
    match lie:
        case "missing":
            disk.remove(path)
        case "empty":
            disk.write_file(path, b"")
        case "odd":
            disk.write_file(path, content[:-3])
        case "zeros":
            disk.write_file(path, bytes(len(content)))
        case "shifted":
            disk.write_file(path, content[4:] + content[:4])
        case _:
            disk.write_file(path, disk.read_file(other)[4:] + bytes(4))
    log, _ = recover(disk, recovery_point=40)
    for offset in range(40):
        piece = log.read(offset, BATCH_BYTES, 40, at_least_one=True)
        assert piece is not None
        assert int.from_bytes(piece.read()[:8], "big") == offset
        piece.release()
    assert [log.find_timestamp(header.max_timestamp) for header in read_all(log)] == expected


@pytest.mark.parametrize("damage", [b"", b"0\n1\n", b"0\n1\n5 x\n", b"1\n0\n", b"\xff\xfe"])
def test_a_damaged_epoch_checkpoint_is_read_from_the_batches(disk: SystemDisk, damage: bytes) -> None:
    log = new_log(disk)
    for offset in range(30):
        append(log, batch_at(offset, epoch=offset // 7))
    expected = log.epochs.entries
    log.close()
    disk.write_file(f"{DIRECTORY}/{layout.EPOCHS}", damage)
    log, _ = recover(disk, recovery_point=30)
    assert log.epochs.entries == expected == ((0, 0), (1, 7), (2, 14), (3, 21), (4, 28))


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_producers_come_from_the_newest_good_snapshot_and_the_batches_after_it(
    disk: SystemDisk, survivors: int
) -> None:
    log = new_log(disk)
    for offset in range(40):
        append(log, batch_at(offset, producer_id=offset % 3, sequence=offset // 3))
    expected = log.producers.entries()
    log.close()
    snapshots = [name for name in disk.list(DIRECTORY) if name.endswith(layout.SNAPSHOT)]
    assert len(snapshots) > 2
    for name in snapshots[survivors:]:
        flip(disk, f"{DIRECTORY}/{name}", 8)
    log, _ = recover(disk, recovery_point=40)
    assert log.producers.entries() == expected


def test_snapshots_of_the_future_are_removed(disk: SystemDisk) -> None:
    log = new_log(disk, ROOMY)
    for offset in range(8):
        append(log, batch_at(offset, producer_id=1, sequence=offset))
    log.close()
    path = stem(0) + layout.LOG
    disk.write_file(path, disk.read_file(path)[:-5])
    log, _ = recover(disk)
    producer = log.producers.get(1)
    assert producer is not None
    assert producer.last_offset == 6
    assert not disk.exists(stem(8) + layout.SNAPSHOT)


def test_leftovers_are_cleaned_up(disk: SystemDisk) -> None:
    log_of(disk, 8).close()
    for name in ("x.tmp", "00000000000000000900.index", "00000000000000000900.timeindex", "a.deleted"):
        disk.write_file(f"{DIRECTORY}/{name}", b"junk")
    recover(disk, recovery_point=8)
    names = disk.list(DIRECTORY)
    assert not [name for name in names if "900" in name or name.endswith((".tmp", ".deleted"))]


# The log's start


def test_segments_below_the_start_are_gone(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    first, second, third = (segment.base_offset for segment in log.segments[:3])
    log.close()
    disk.remove(stem(second) + layout.LOG)  # a removal that a crash has interrupted
    log, _ = recover(disk, recovery_point=40, start_offset=third + 1)
    assert log.start_offset == third + 1
    assert not disk.exists(stem(first) + layout.LOG)
    assert offsets_in(log)[0] == third + 1


def test_deleted_records_that_come_back_in_part_are_no_damage(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    first, second, third, fourth = (segment.base_offset for segment in log.segments)
    log.close(is_clean=False)
    # Everything below the third segment was deleted. A power cut undid one removal, and the creation of the third.
    disk.remove(stem(second) + layout.LOG)
    disk.remove(stem(third) + layout.LOG)
    log, report = recover(disk, recovery_point=third, start_offset=third)
    assert (log.start_offset, log.next_offset) == (third, third)
    assert report.cut_kept_in == [stem(fourth) + layout.CUT]
    assert not disk.exists(stem(first) + layout.LOG)


def test_a_log_that_ends_below_its_start_begins_there_anew(disk: SystemDisk) -> None:
    crashed_log(disk)
    log, _ = recover(disk, start_offset=20)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (20, 20, 0)
    append(log, batch_at(20))
    assert offsets_in(reopened(log)) == [20]


def test_a_log_whose_flushed_records_were_all_deleted_has_lost_none(disk: SystemDisk) -> None:
    """A power cut may take a file that is to be removed in any state."""
    path = crashed_log(disk)
    disk.write_file(path, disk.read_file(path)[: 4 * BATCH_BYTES])
    log, _ = recover(disk, recovery_point=8, start_offset=8)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (8, 8, 0)


@pytest.mark.parametrize("lot", range(20))
def test_what_recovery_cut_off_does_not_come_back_behind_what_is_written_there(lot: int) -> None:
    """Each batch fills a sector, and the second was never written. What follows it is whole, would fit behind another
    batch in its place, and must not be there after the next power cut."""
    value_bytes = next(size for size in range(SECTOR) if len(batch_at(0, value_bytes=size)) == SECTOR)
    device = Device(Random(lot))
    log = log_of(SimulatedDisk(device), 3, ROOMY, value_bytes=value_bytes)
    log.disk.sync_everything()
    file = device.file(stem(0) + layout.LOG)
    file.write(SECTOR, bytes(SECTOR))
    file.sync()
    log, report = open_log(LOG_ID, SegmentCache(SimulatedDisk(device)), ROOMY, is_synced=True)
    assert (log.next_offset, report.cut_bytes) == (1, 2 * SECTOR)
    append(log, batch_at(1, value_bytes=value_bytes, epoch=1))
    device.power_cut()
    log, _ = open_log(LOG_ID, SegmentCache(SimulatedDisk(device)), ROOMY)
    assert [(header.base_offset, header.leader_epoch) for header in read_all(log)] in ([(0, 0)], [(0, 0), (1, 1)])


def test_hopping_stops_at_damage(disk: SystemDisk) -> None:
    path = crashed_log(disk)
    flip(disk, path, 2 * BATCH_BYTES + 16)
    file = disk.open(path)
    found = headers_from(file, path, 0, file.size())
    assert [next(found)[1].base_offset, next(found)[1].base_offset] == [0, 1]
    with pytest.raises(DamagedLog):
        next(found)
    file.close()
