"""The index of aborted transactions: never lost, whatever happens to its file, and gone with its segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import Refusal
from headrace.storage.files import layout
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.segments.transaction_index import AbortedIndex, TransactionIndex
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.storage.small_logs import DIRECTORY, LOG_ID, append, batch_at, marker_at, new_log, reopened

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk, SystemDisk
    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog

ABORT = Marker(is_commit=False, coordinator_epoch=3)
COMMIT = Marker(is_commit=True, coordinator_epoch=3)


def abort(log: PartitionLog, producer_id: int = 7, count: int = 1) -> None:
    """A transaction of one batch, aborted."""
    known = log.producers.get(producer_id)
    sequence = 0 if known is None else known.next_sequence
    offset = log.next_offset
    append(
        log,
        batch_at(offset, count=count, producer_id=producer_id, sequence=sequence, is_transactional=True),
        marker_at(offset + count, producer_id, ABORT),
    )


def aborted_in(log: PartitionLog, first: int = 0, end: int | None = None) -> list[tuple[int, int, int]]:
    found = log.transaction_indexes.aborted_between(first, log.next_offset if end is None else end)
    return [(item.producer_id, item.first_offset, item.last_offset) for item in found]


def index_files(disk: Disk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(layout.ABORTED)]


def log_with_aborts(disk: Disk, count: int = 12) -> PartitionLog:
    """Aborted transactions at 0-1, 2-3, 4-5 …, over several segments."""
    log = new_log(disk)
    for _ in range(count):
        abort(log)
    assert len(log.segments) > 2
    return log


EVERY = [(7, offset, offset + 1) for offset in range(0, 24, 2)]


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        pytest.param(0, 24, EVERY, id="everything"),
        pytest.param(0, 0, [], id="nothing"),
        pytest.param(4, 6, [(7, 4, 5)], id="one"),
        pytest.param(5, 6, [(7, 4, 5)], id="only its marker"),
        pytest.param(4, 5, [(7, 4, 5)], id="only its records"),
        pytest.param(3, 5, [(7, 2, 3), (7, 4, 5)], id="the end of one and the beginning of another"),
        pytest.param(6, 20, EVERY[3:10], id="over segments"),
    ],
)
def test_those_that_overlap_a_range_are_found(
    disk: SystemDisk, first: int, end: int, expected: list[tuple[int, int, int]]
) -> None:
    log = log_with_aborts(disk)
    assert aborted_in(log, first, end) == expected
    assert aborted_in(reopened(log), first, end) == expected


def test_a_transaction_that_ends_segments_later_is_found_where_it_began(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, producer_id=9, sequence=0, is_transactional=True))
    for _ in range(12):
        abort(log)
    append(log, marker_at(log.next_offset, 9, ABORT))
    assert aborted_in(log, 0, 1) == [(9, 0, 25)]
    assert aborted_in(reopened(log), 0, 1) == [(9, 0, 25)]


def test_commits_are_not_in_it(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, producer_id=9, sequence=0, is_transactional=True), marker_at(1, 9, COMMIT))
    assert aborted_in(log) == []


@pytest.mark.parametrize("recovery_point", [0, 1, 2, 11, 24])
def test_a_crash_loses_none(disk: SystemDisk, recovery_point: int) -> None:
    log = log_with_aborts(disk)
    log.hints.save()
    assert aborted_in(reopened(log, recovery_point=recovery_point, is_clean=False)) == EVERY


def test_a_start_does_not_double_them(disk: SystemDisk) -> None:
    log = log_with_aborts(disk)
    for recovery_point in (24, 0, 5, 24):
        log.hints.save()
        log = reopened(log, recovery_point=recovery_point, is_clean=recovery_point == 24)
        assert aborted_in(log) == EVERY


@pytest.mark.parametrize("damage", [b"nonsense", bytes(34), bytes(68)], ids=["text", "zeros", "twice zeros"])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_damaged_file_is_built_anew(disk: SystemDisk, damage: bytes, number: int) -> None:
    log = log_with_aborts(disk)
    log.close()
    path = f"{DIRECTORY}/{index_files(disk)[number]}"
    undamaged = disk.read_file(path)
    disk.write_file(path, damage)
    log, _ = open_log(LOG_ID, SegmentCache(disk), log.settings, recovery_point=24, is_synced=True)
    assert aborted_in(log) == EVERY
    log.close()
    assert disk.read_file(path) == undamaged


def test_a_cut_takes_those_behind_it(disk: SystemDisk) -> None:
    log = log_with_aborts(disk)
    log.close()
    log, _ = open_log(LOG_ID, SegmentCache(disk), log.settings, recovery_point=24, is_synced=True)
    log.truncate(9)
    assert aborted_in(log) == EVERY[:4]
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.current_txn_first_offset == 8, "its marker is gone"
    append(log, marker_at(9, 7, ABORT))
    assert aborted_in(reopened(log, recovery_point=0, is_clean=False)) == EVERY[:5]


def test_an_index_may_leave_memory_while_a_thread_looks(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_with_aborts(disk)
    log.hints.save()
    last = log.segments[0]
    slot = TransactionIndex.__dict__["entries"]
    looks = 0

    def get(index: TransactionIndex) -> AbortedIndex | None:
        nonlocal looks
        found: AbortedIndex | None = slot.__get__(index)
        if index is last.aborted:
            looks += 1
            if looks == 1:  # the loop's turn: others are read, and this one was not for the longest time
                slot.__set__(index, None)
        return found

    search = log.begin_truncation(last.base_offset + 3)
    assert search is not None
    with monkeypatch.context() as patch:
        patch.setattr(TransactionIndex, "entries", property(get, slot.__set__))
        found = search.find()
    files = log.apply_truncation(found)
    assert files is not None
    files.write()
    log.finish_truncation(files)
    assert aborted_in(log) == EVERY[:1]


def test_it_goes_with_its_segment(disk: SystemDisk) -> None:
    log = log_with_aborts(disk)
    log.high_watermark = log.next_offset
    log.close()
    files = index_files(disk)
    log, _ = open_log(LOG_ID, SegmentCache(disk), log.settings, recovery_point=24, is_synced=True)
    log.high_watermark = log.next_offset
    log.retention.advance_start(24)
    log.retention.delete_expired(0)
    for path in log.retention.take_garbage():
        disk.remove(path)
    assert files
    assert index_files(disk) == []
    assert aborted_in(log, 24) == []


def test_a_segment_with_too_many_of_them_is_rolled(disk: SystemDisk) -> None:
    settings = LogSettings(segment_index_bytes=340, retention_ms=None)
    log = new_log(disk, settings)
    for _ in range(25):
        abort(log)
    assert [len(log.segments[number].aborted.entries or ()) for number in range(3)] == [10, 10, 5]


def test_a_transaction_lives_on_when_its_first_records_are_deleted(disk: SystemDisk) -> None:
    """A power cut may take the snapshot that would tell of them, just before a start removes their segment."""
    log = new_log(disk)
    append(log, batch_at(0, producer_id=7, sequence=0, is_transactional=True))
    log.roll()
    append(log, batch_at(1))
    log.close(is_clean=False)
    disk.remove(f"{DIRECTORY}/{1:020d}{layout.SNAPSHOT}")
    log, _ = open_log(LOG_ID, SegmentCache(disk), log.settings, start_offset=1, is_synced=True)
    assert log.segments[0].base_offset == 1
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.current_txn_first_offset == 0
    append(log, marker_at(2, 7, ABORT))
    assert aborted_in(log, 1) == [(7, 0, 2)]


class TestFullDisk:
    """A recovery point must not pass an abort that is not in its file: below it no file means none."""

    def test_forbids_a_recovery_point(self, device: Device, simulated: SimulatedDisk) -> None:
        log = new_log(simulated)
        abort(log)
        device.capacity_bytes = device.used_bytes
        with pytest.raises(Refusal, match="the disk is full"):
            log.hints.save()
        device.capacity_bytes = None
        log.hints.save()
        assert aborted_in(reopened(log, recovery_point=2, is_clean=False)) == [(7, 0, 1)]

    def test_on_a_roll_too(self, device: Device, simulated: SimulatedDisk) -> None:
        log = new_log(simulated)
        abort(log)
        device.capacity_bytes = device.used_bytes
        log.roll()
        assert len(log.segments) == 2
        assert aborted_in(log) == [(7, 0, 1)]
        with pytest.raises(Refusal):
            log.hints.save()
        device.capacity_bytes = None
        log.hints.save()
        assert aborted_in(reopened(log, recovery_point=2, is_clean=False)) == [(7, 0, 1)]

    def test_spares_what_was_there_before(self, device: Device, simulated: SimulatedDisk) -> None:
        log = new_log(simulated)
        abort(log)
        log.hints.save()
        abort(log)
        device.capacity_bytes = device.used_bytes + 10  # a part of an entry
        with pytest.raises(Refusal):
            log.hints.save()
        device.capacity_bytes = None
        assert aborted_in(reopened(log, recovery_point=2, is_clean=False)) == [(7, 0, 1), (7, 2, 3)]


def test_an_index_is_its_file(disk: SystemDisk) -> None:
    log = log_with_aborts(disk)
    log.close()
    packed = disk.read_file(f"{DIRECTORY}/{index_files(disk)[0]}")
    index = AbortedIndex(packed)
    assert index.encode() == packed
    assert index.encode(1) == packed[34:]
    assert [item.last_offset for item in index] == [item[2] for item in EVERY[: len(index)]]
    with pytest.raises(ValueError, match="part of one"):
        AbortedIndex(packed[:-1])
    with pytest.raises(ValueError, match="after"):
        AbortedIndex(packed[34:] + packed[:34])
