from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.wire.batches.header import read_header
from tests.unit.storage.compacted_logs import flush
from tests.unit.storage.small_logs import (
    FIRST_MS,
    LOG_ID,
    SETTINGS,
    append,
    batch_at,
    headers_in,
    log_of,
    new_log,
    read,
    read_all,
)

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk
    from headrace.storage.log.partition_log import PartitionLog

BATCH_BYTES = len(batch_at(0))


def offsets(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, end_offset: int | None = None) -> list[int]:
    return [header.base_offset for header in read(log, offset, max_bytes, end_offset)]


def test_a_new_log_is_empty(disk: SystemDisk) -> None:
    log = new_log(disk)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (0, 0, 0)
    assert read(log, 0) == []


def test_what_was_written_can_be_read(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    assert len(log.segments) > 3
    assert [header.base_offset for header in read_all(log)] == list(range(40))
    assert log.size_bytes == 40 * BATCH_BYTES


def test_the_partition_name_can_be_read_by_a_human(disk: SystemDisk) -> None:
    new_log(disk)
    assert disk.read_file(f"topics/{LOG_ID}/partition.name") == b"topic: orders\npartition: 3\n"


def test_a_read_does_not_cross_a_segment(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    second = log.segments[1].base_offset
    assert offsets(log, 0) == list(range(second))


def test_an_offset_inside_a_batch_brings_the_whole_batch(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, count=5), batch_at(5, count=5), batch_at(10, count=5))
    for offset in range(5, 10):
        assert offsets(log, offset) == [5, 10]


def test_only_whole_batches_up_to_the_limit_come(disk: SystemDisk) -> None:
    log = log_of(disk, 9, replace(SETTINGS, segment_bytes=1 << 20, index_interval_bytes=1 << 20))
    assert offsets(log, 2, 3 * BATCH_BYTES) == [2, 3, 4]
    assert offsets(log, 2, 4 * BATCH_BYTES - 1) == [2, 3, 4]


@pytest.mark.parametrize("interval_bytes", [1, 100, 150, 400, 100_000])
def test_a_limit_between_index_entries_costs_at_most_the_interval(disk: SystemDisk, interval_bytes: int) -> None:
    log = log_of(disk, 50, replace(SETTINGS, segment_bytes=1 << 20, index_interval_bytes=interval_bytes))
    for max_bytes in range(BATCH_BYTES, 10 * BATCH_BYTES, 37):
        for offset in range(50 - 10):
            found = offsets(log, offset, max_bytes)
            fitting = max_bytes // BATCH_BYTES
            assert found == list(range(offset, offset + len(found)))
            assert fitting - interval_bytes / BATCH_BYTES - 1 <= len(found) <= fitting


def test_a_first_batch_that_is_too_large_comes_only_on_request(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, value_bytes=500), batch_at(1))
    assert log.read(0, 100, 2, at_least_one=False) is None
    piece = log.read(0, 100, 2, at_least_one=True)
    assert piece is not None
    assert [header.base_offset for header in headers_in(piece.read())] == [0]
    piece.release()


def test_nothing_beyond_the_end_offset_comes(disk: SystemDisk) -> None:
    log = log_of(disk, 40)
    for end in range(41):
        assert [offset for start in range(40) for offset in offsets(log, start, end_offset=end) if offset >= end] == []
        if end:
            assert offsets(log, end - 1, end_offset=end) == [end - 1]
    assert log.read(7, 1000, 7, at_least_one=True) is None


@pytest.mark.parametrize("offset", [-1, 41, 1 << 40])
def test_offsets_outside_the_log_are_refused(disk: SystemDisk, offset: int) -> None:
    log = log_of(disk, 40)
    with pytest.raises(Refusal, match="0 to 40") as refusal:
        log.read(offset, 1000, 40, at_least_one=True)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_in_a_gap_brings_the_next_batch(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(3, count=2), batch_at(9), batch_at(20))
    assert log.next_offset == 21
    assert offsets(log, 0) == [3, 9, 20]
    assert offsets(log, 5) == [9, 20]
    log.roll()
    append(log, batch_at(50))
    assert offsets(log, 21) == [50]
    assert offsets(log, 12, end_offset=20) == []
    assert offsets(log, 30) == [50]


def test_an_offset_in_a_gap_at_the_end_of_a_segment_brings_the_next_segment(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0))
    far = 1 + 2**31  # too far for an index entry of this segment
    append(log, batch_at(far))
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert offsets(log, 5) == [far]


def test_a_set_that_straddles_a_roll_is_split(disk: SystemDisk) -> None:
    log = new_log(disk)
    batches = [batch_at(offset) for offset in range(35)]
    append(log, *batches)
    assert len(log.segments) == 4
    assert all(segment.size <= SETTINGS.segment_bytes for segment in log.segments)
    assert [header.base_offset for header in read_all(log)] == list(range(35))


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0))
    append(log, batch_at(1, value_bytes=3000))
    append(log, batch_at(2))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_time_in_the_records_rolls_the_log(disk: SystemDisk) -> None:
    log = new_log(disk, replace(SETTINGS, segment_ms=1000))
    for offset, age_ms in enumerate([0, 1000, 1001, 500, 2001, 2002]):
        append(log, batch_at(offset, timestamps=[FIRST_MS + age_ms]))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]


def test_records_without_a_timestamp_do_not_roll_the_log(disk: SystemDisk) -> None:
    log = new_log(disk, replace(SETTINGS, segment_ms=1000))
    append(log, batch_at(0, timestamps=[-1]))
    append(log, batch_at(1, timestamps=[FIRST_MS]))
    assert len(log.segments) == 1


def test_a_full_index_rolls_the_log(disk: SystemDisk) -> None:
    settings = replace(SETTINGS, segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=48)
    log = log_of(disk, 10, settings)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]  # 48 bytes are four time entries, one kept


def test_settings_can_change_while_the_log_is_in_use(disk: SystemDisk) -> None:
    log = log_of(disk, 3)
    log.settings = replace(SETTINGS, segment_bytes=BATCH_BYTES)
    append(log, batch_at(3))
    append(log, batch_at(4))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 4]


def test_producers_and_epochs_follow_the_batches(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, epoch=2, producer_id=9, sequence=0), batch_at(1, epoch=5, producer_id=9, sequence=1))
    assert log.epochs.entries == ((2, 0), (5, 1))
    producer = log.producers.get(9)
    assert producer is not None
    assert (producer.last_sequence, producer.last_offset) == (1, 1)


def test_a_batch_below_the_end_is_a_bug(disk: SystemDisk) -> None:
    log = log_of(disk, 3)
    with pytest.raises(AssertionError, match="below the end"):
        append(log, batch_at(2))


def test_a_slice_outlives_roll_retention_and_close(disk: SystemDisk) -> None:
    log = log_of(disk, 40, replace(SETTINGS, retention_bytes=0))
    log.high_watermark = 40
    piece = log.read(0, 1 << 20, 40, at_least_one=True)
    assert piece is not None
    assert log.retention.delete_expired(FIRST_MS)
    for path in log.retention.take_garbage():
        disk.remove(path)
    log.close()
    assert piece.is_current
    assert headers_in(piece.read())[0].base_offset == 0
    piece.release()


def test_many_segments_are_read_through_few_open_files(disk: SystemDisk) -> None:
    handles = SegmentCache(disk, open_files=3, index_entries=2)
    log = create_log(LOG_ID, "orders", handles, replace(SETTINGS, segment_bytes=300))
    for offset in range(60):
        append(log, batch_at(offset))
        flush(log)
    assert len(log.segments) > 10
    for offset in (*range(60), *range(59, -1, -1)):
        assert offsets(log, offset)[0] == offset
        assert offsets(log, offset, 2 * BATCH_BYTES)[0] == offset
        assert handles.open_count <= 3


def test_views_of_a_larger_buffer_are_written(disk: SystemDisk) -> None:
    log = new_log(disk)
    first, second = batch_at(0), batch_at(1)
    with memoryview(bytearray(b"frame") + first + b"between" + second) as view:
        views = [view[5 : 5 + len(first)], view[12 + len(first) :]]
        log.append(views, [read_header(part) for part in views])
    assert [header.base_offset for header in read_all(log)] == [0, 1]
