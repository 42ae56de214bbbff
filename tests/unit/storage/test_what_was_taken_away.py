"""Files and index entries that are not as they were left, where no crash can have changed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.names import LogId, TopicId
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.index import TIME_ENTRY_BYTES
from headrace.storage.segments.segment_cache import SEARCHES_SPARED, SegmentCache
from tests.unit.storage.small_logs import (
    DIRECTORY,
    FIRST_MS,
    LOG_ID,
    SETTINGS,
    append,
    batch_at,
    log_of,
    read_all,
    reopened,
)

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk


def stem(base_offset: int) -> str:
    return layout.stem(DIRECTORY, base_offset)


def test_a_log_that_ends_below_its_recovery_point_is_damaged(disk: SystemDisk) -> None:
    log_of(disk, 5).close()
    path = stem(0) + layout.LOG
    file = disk.open(path)
    file.truncate(4 * len(batch_at(0)))  # a whole number of batches, so nothing looks torn
    file.close()
    with pytest.raises(DamagedLog, match="the log ends here, expected was everything up to offset 5"):
        open_log(LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=5)


def test_a_first_file_that_nobody_gave_up_is_missed(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    second = log.segments[1].base_offset
    log.close()
    disk.remove(stem(0) + layout.LOG)
    with pytest.raises(DamagedLog, match=f"it is missing; the files begin at offset {second}"):
        open_log(LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=40)


def test_a_first_file_that_retention_removed_is_not_missed(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    second = log.segments[1].base_offset
    log.close()
    disk.remove(stem(0) + layout.LOG)
    log, _ = open_log(LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=40, start_offset=second)
    assert (log.start_offset, log.next_offset) == (second, 40)


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_a_time_index_that_lies_is_not_believed(disk: SystemDisk, entry: int) -> None:
    log = reopened(log_of(disk, 40))
    path = log.segments[0].stem + layout.TIME_INDEX
    content = bytearray(disk.read_file(path))
    assert len(content) // TIME_ENTRY_BYTES > 3
    content[entry * TIME_ENTRY_BYTES] ^= 0xFF  # the highest byte of its time: now long before all others
    disk.write_file(path, bytes(content))
    for offset in range(log.segments[1].base_offset):
        found = log.find_timestamp(FIRST_MS + offset)
        assert found is not None
        assert found.offset == offset


def test_a_read_that_may_wait_opens_no_file_beyond_the_limit(disk: SystemDisk) -> None:
    handles = SegmentCache(disk, open_files=3)
    logs = [create_log(LogId(TopicId(bytes(16)), number), "orders", handles, SETTINGS) for number in range(6)]
    for log in logs:
        append(log, batch_at(0))
        ticket = log.flushing.begin()
        assert ticket is not None
        ticket.sync(disk)
        log.flushing.finish(ticket)

    slices = [log.read(0, 1000, 1, at_least_one=False) for log in logs]
    taken = [piece for piece in slices if piece is not None]
    assert len(taken) == handles.open_count == 3
    for piece in taken:
        piece.release()

    waiting = [log for log, piece in zip(logs, slices, strict=True) if piece is None]
    for _ in range(SEARCHES_SPARED):
        again = waiting[0].read(0, 1000, 1, at_least_one=False)
        if again is not None:
            break
    assert again is not None
    again.release()
    assert all(len(read_all(log)) == 1 for log in logs)
