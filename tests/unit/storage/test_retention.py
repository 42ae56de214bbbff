from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from tests.unit.storage.small_logs import FIRST_MS, SETTINGS, append, batch_at, log_of, new_log, read_all, reopened

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.settings import LogSettings

BY_TIME = replace(SETTINGS, retention_ms=1000)
FOR_EVER = FIRST_MS + (1 << 40)


def committed_log(disk: SystemDisk, batch_count: int, settings: LogSettings = SETTINGS) -> PartitionLog:
    log = log_of(disk, batch_count, settings)
    log.high_watermark = log.next_offset
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_without_retention_nothing_is_dropped(disk: SystemDisk) -> None:
    log = committed_log(disk, 40)
    assert log.retention.delete_expired(FOR_EVER) == []
    assert log.start_offset == 0


def test_segments_go_once_their_newest_record_is_too_old(disk: SystemDisk) -> None:
    log = committed_log(disk, 40, BY_TIME)
    first, second, third, *_ = bases(log)
    newest_of_second = FIRST_MS + third - 1
    assert log.retention.delete_expired(newest_of_second + 1000) == [first]
    assert log.retention.delete_expired(newest_of_second + 1001) == [second]
    assert log.start_offset == third
    assert read_all(log)[0].base_offset == third
    with pytest.raises(Refusal) as refusal:
        log.read(second, 1000, 40, at_least_one=True)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_active_segment_goes_too_and_the_log_goes_on(disk: SystemDisk) -> None:
    log = committed_log(disk, 40, BY_TIME)
    assert len(log.retention.delete_expired(FOR_EVER)) == 4
    assert (log.start_offset, log.next_offset, log.size_bytes, bases(log)) == (40, 40, 0, [40])
    assert log.retention.delete_expired(FOR_EVER) == []
    append(log, batch_at(40))
    log.high_watermark = 41
    log = reopened(log)
    assert (log.start_offset, log.next_offset) == (40, 41)


def test_the_oldest_segments_go_if_the_log_is_too_large(disk: SystemDisk) -> None:
    log = committed_log(disk, 40, replace(SETTINGS, retention_bytes=2000))
    sizes = [segment.size for segment in log.segments]
    log.retention.delete_expired(FIRST_MS)
    assert log.size_bytes == sum(sizes[-3:])  # without the third-last it would be less than asked for
    assert log.size_bytes - sizes[-3] < 2000 <= log.size_bytes


def test_what_is_not_committed_stays(disk: SystemDisk) -> None:
    log = committed_log(disk, 40, BY_TIME)
    second = bases(log)[1]
    log.high_watermark = second
    assert log.retention.delete_expired(FOR_EVER) == [0]


def test_late_timestamps_keep_a_segment(disk: SystemDisk) -> None:
    log = new_log(disk, BY_TIME)
    append(log, batch_at(0, timestamps=[FIRST_MS + 5000]), *(batch_at(offset) for offset in range(1, 40)))
    log.high_watermark = 40
    assert log.retention.delete_expired(FIRST_MS + 5500) == []
    log = reopened(log)
    log.high_watermark = 40
    assert log.retention.delete_expired(FIRST_MS + 5500) == []
    assert log.retention.delete_expired(FIRST_MS + 6001)[0] == 0


def test_segments_without_timestamps_go_by_the_time_they_were_met(disk: SystemDisk) -> None:
    log = new_log(disk, BY_TIME)
    for offset in range(20):
        append(log, batch_at(offset, timestamps=[-1]))
    log.high_watermark = 20
    assert log.retention.delete_expired(FIRST_MS) == []
    assert log.retention.delete_expired(FIRST_MS + 1000) == []
    assert log.retention.delete_expired(FIRST_MS + 1001) == [0]


def test_files_of_dropped_segments_stay_until_they_are_taken(disk: SystemDisk) -> None:
    log = committed_log(disk, 40, BY_TIME)
    paths = log.segments[0].paths
    log.retention.delete_expired(FIRST_MS + 1000 + bases(log)[1])
    assert disk.exists(paths[0])
    assert log.retention.take_garbage() == list(paths)
    assert log.retention.take_garbage() == []


def test_a_moved_start_hides_records_at_once_and_drops_segments_later(disk: SystemDisk) -> None:
    log = committed_log(disk, 40)
    first, second, third, *_ = bases(log)
    log.retention.advance_start(third + 2)
    assert log.start_offset == third + 2
    assert log.segments[0].base_offset == first
    with pytest.raises(Refusal):
        log.read(third + 1, 1000, 40, at_least_one=True)
    assert log.retention.delete_expired(FIRST_MS) == [first, second]
    assert log.start_offset == third + 2
    log.retention.advance_start(3)
    assert log.start_offset == third + 2


def test_a_start_at_the_end_empties_the_log(disk: SystemDisk) -> None:
    log = committed_log(disk, 40)
    log.retention.advance_start(40)
    assert len(log.retention.delete_expired(FIRST_MS)) == 4
    append(log, batch_at(40))
    assert [header.base_offset for header in read_all(log)] == [40]


def test_epochs_begin_with_that_of_the_last_record_that_is_gone(disk: SystemDisk) -> None:
    log = new_log(disk)
    for offset in range(30):
        append(log, batch_at(offset, epoch=offset // 10))
    log.retention.advance_start(15)
    assert log.epochs.entries == ((1, 10), (2, 20))
    log.retention.advance_start(20)
    assert log.epochs.entries == ((1, 10), (2, 20))
    log.retention.advance_start(21)
    assert log.epochs.entries == ((2, 20),)
