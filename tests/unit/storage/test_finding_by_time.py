from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Operation
from headrace.storage.files.damage import DamagedLog
from headrace.storage.log.log_segments import LogSegments
from headrace.wire.batches.header import Codec
from tests.unit.storage.small_logs import FIRST_MS, SETTINGS, append, batch_at, log_of, new_log, read, reopened

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.disk import SystemFile
    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog
    from headrace.storage.segments.segment import Segment


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_the_exact_record_inside_a_batch_is_found(disk: SystemDisk, codec: Codec) -> None:
    log = new_log(disk)
    for offset in range(0, 40, 4):
        times = [FIRST_MS + 10 * (offset + number) for number in range(4)]
        append(log, batch_at(offset, count=4, timestamps=times, codec=codec, epoch=offset // 8))
    for opened in (log, reopened(log)):
        for offset in range(40):
            exact = (FIRST_MS + 10 * offset, offset, offset // 8)
            assert opened.find_timestamp(FIRST_MS + 10 * offset) == exact
            assert opened.find_timestamp(FIRST_MS + 10 * offset - 9) == exact
        assert opened.find_timestamp(FIRST_MS + 391) is None
        assert opened.find_timestamp(0) == (FIRST_MS, 0, 0)


def test_an_empty_log_has_no_records(disk: SystemDisk) -> None:
    log = new_log(disk)
    assert log.find_timestamp(0) is None
    assert log.max_timestamp() is None


def test_records_out_of_time_order_are_found_where_they_come_first(disk: SystemDisk) -> None:
    log = new_log(disk)
    ages = [5, 3, 9, 1, 9, 20, 2, 20, 4]
    for offset, age in enumerate(ages):
        append(log, batch_at(offset, timestamps=[FIRST_MS + age], value_bytes=200))
    for target in range(22):
        expected = next((offset for offset, age in enumerate(ages) if age >= target), None)
        found = log.find_timestamp(FIRST_MS + target)
        assert (found.offset if found else None) == expected


def test_the_newest_record_is_the_first_that_has_its_time(disk: SystemDisk) -> None:
    log = new_log(disk)
    for offset in range(0, 40, 4):
        age = 100 if offset in {12, 24} else offset
        append(log, batch_at(offset, count=4, timestamps=[FIRST_MS + time for time in (1, age, age, 2)], epoch=3))
    assert log.max_timestamp() == (FIRST_MS + 100, 13, 3)
    assert reopened(log).max_timestamp() == (FIRST_MS + 100, 13, 3)


def test_nothing_below_the_log_start_is_found(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, count=4, timestamps=[FIRST_MS + age for age in (50, 90, 10, 70)]))
    append(log, batch_at(4, count=4, timestamps=[FIRST_MS + age for age in (20, 30, 60, 40)]))
    log.retention.advance_start(2)
    assert log.find_timestamp(0) == (FIRST_MS + 10, 2, 0)
    assert log.find_timestamp(FIRST_MS + 71) is None
    assert log.max_timestamp() == (FIRST_MS + 70, 3, 0)
    log.retention.advance_start(4)
    assert log.max_timestamp() == (FIRST_MS + 60, 6, 0)


def test_append_time_needs_no_look_inside(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, count=3, append_time=FIRST_MS + 7), batch_at(3, count=3, append_time=FIRST_MS + 9))
    assert log.find_timestamp(FIRST_MS + 8) == (FIRST_MS + 9, 3, 0)
    assert log.max_timestamp() == (FIRST_MS + 9, 3, 0)


def test_records_without_timestamps_have_no_newest(disk: SystemDisk) -> None:
    log = new_log(disk)
    append(log, batch_at(0, timestamps=[-1]))
    assert log.max_timestamp() is None
    assert log.find_timestamp(0) is None


def test_a_damaged_batch_is_not_opened(disk: SystemDisk) -> None:
    log = log_of(disk, 3)
    path = log.segments[0].log_path
    content = bytearray(disk.read_file(path))
    content[-1] ^= 1
    log.close(is_clean=False)
    disk.write_file(path, bytes(content))
    log = reopened(log, recovery_point=3, is_clean=False)
    with pytest.raises(DamagedLog, match="CRC"):
        log.find_timestamp(FIRST_MS + 2)


def test_a_lookup_in_a_thread_bears_with_appends_rolls_deletions_and_cuts(disk: SystemDisk) -> None:
    log = new_log(disk)
    failures: list[BaseException] = []
    is_done = threading.Event()

    def look() -> None:
        try:
            while not is_done.is_set():
                low = log.start_offset
                found = log.find_timestamp(FIRST_MS + low)
                assert found is None or found.offset >= low
                newest = log.max_timestamp()
                assert newest is None or newest.timestamp == FIRST_MS + newest.offset
        except BaseException as failure:  # noqa: BLE001 - handed to the main thread
            failures.append(failure)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        offset = 0
        for turn in range(1500):
            append(log, batch_at(offset))
            offset += 1
            if turn % 100 == 99:
                log.high_watermark = offset
                log.retention.advance_start(offset - 20)
                log.retention.delete_expired(FIRST_MS)
                for path in log.retention.take_garbage():
                    disk.remove(path)
            if turn % 70 == 69:
                log.truncate(offset - 5)
                offset = log.next_offset
    finally:
        is_done.set()
        thread.join()
    assert failures == []


def test_a_lookup_that_begins_in_the_middle_of_a_cut_does_not_take_it_for_damage(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(disk, 10)
    found: list[object] = []
    looks = 0
    has_looked, is_cut = threading.Event(), threading.Event()
    honest_open, honest_cut = SystemDisk.open, LogSegments.cut_to

    def look() -> None:
        try:
            found.append(log.max_timestamp())
        except DamagedLog as damage:
            found.append(damage)

    thread = threading.Thread(target=look)

    def open_when_cut(disk: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        nonlocal looks
        if threading.current_thread() is thread:
            looks += 1
            has_looked.set()  # at what the segment's size was
            is_cut.wait(30)
        return honest_open(disk, path, create=create)

    def cut_under_a_lookup(chain: LogSegments, end_offset: int, last: Segment, remade: Segment) -> list[str]:
        thread.start()
        assert has_looked.wait(30)
        dropped = honest_cut(chain, end_offset, last, remade)
        is_cut.set()
        while looks < 2 and thread.is_alive():  # so that it has seen what there is in the middle
            time.sleep(0.001)
        return dropped

    monkeypatch.setattr(SystemDisk, "open", open_when_cut)
    monkeypatch.setattr(LogSegments, "cut_to", cut_under_a_lookup)
    log.truncate(5)
    thread.join(30)
    assert found == [(FIRST_MS + 4, 4, 0)]


def found_beside(device: Device, log: PartitionLog, work: Callable[[], object]) -> set[object]:
    """What a thread could be told that looks while `work` on the loop reads from the disk."""
    found: set[object] = set()
    is_looking = False

    def look(operation: Operation, _path: str) -> None:
        nonlocal is_looking
        if operation is Operation.READ and not is_looking:
            is_looking = True
            found.add((log.find_timestamp(FIRST_MS + 3), log.max_timestamp()))
            is_looking = False

    device.watch(look)
    work()
    device.unwatch(look)
    return found


def test_a_lookup_finds_records_whose_times_retention_sees_for_the_first_time(
    device: Device, simulated: SimulatedDisk
) -> None:
    log = reopened(log_of(simulated, 60))
    log.settings = replace(SETTINGS, retention_ms=0)
    log.high_watermark = 60
    found = found_beside(device, log, lambda: log.retention.delete_expired(FIRST_MS))  # nothing is that old
    assert found == {((FIRST_MS + 3, 3, 0), (FIRST_MS + 59, 59, 0))}


def test_a_lookup_finds_records_whose_index_is_being_made_again(device: Device, simulated: SimulatedDisk) -> None:
    log = reopened(log_of(simulated, 60))
    for path in log.segments[0].index_paths:
        simulated.remove(path)
    found = found_beside(device, log, lambda: read(log, 3))
    assert found == {((FIRST_MS + 3, 3, 0), (FIRST_MS + 59, 59, 0))}
