from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import DiskFailure
from headrace.model.names import LogId, TopicId
from headrace.simulation.environment.device import Operation, os_error
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SEARCHES_SPARED, SegmentCache
from tests.unit.storage.small_logs import SETTINGS, append, batch_at, read_all

if TYPE_CHECKING:
    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk, SimulatedFile
    from headrace.storage.log.partition_log import PartitionLog

ROOMY = replace(SETTINGS, segment_bytes=1 << 20)


def logs_on(handles: SegmentCache, count: int) -> list[PartitionLog]:
    return [create_log(LogId(TopicId(bytes(16)), number), "orders", handles, ROOMY) for number in range(count)]


def flush(log: PartitionLog) -> None:
    ticket = log.flushing.begin()
    assert ticket is not None
    ticket.sync(log.disk)
    log.flushing.finish(ticket)


def count_syncs(device: Device) -> list[str]:
    seen: list[str] = []
    device.watch(
        lambda operation, path: (
            seen.append(operation) if operation in {Operation.SYNC, Operation.SYNC_EVERYTHING} else None
        )
    )
    return seen


def test_many_logs_are_written_through_few_files(simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, open_files=4)
    logs = logs_on(handles, 30)
    for offset in range(3):
        for log in logs:
            append(log, batch_at(offset))
            flush(log)
            assert handles.open_count <= 4
    assert all(len(read_all(log)) == 3 for log in logs)


def test_a_file_with_unsynced_bytes_is_not_closed(device: Device, simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, open_files=4)
    logs = logs_on(handles, 4)
    for log in logs:
        append(log, batch_at(0))
    files = [log.segments[0].file for log in logs]
    flush(logs[2])
    (newcomer,) = [create_log(LogId(TopicId(b"n" * 16), 0), "orders", handles, ROOMY)]
    seen = count_syncs(device)
    append(newcomer, batch_at(0))
    assert [log.segments[0].file for log in logs] == [files[0], files[1], None, files[3]]
    assert seen == []


def test_files_that_wait_for_their_flush_stay_open_beyond_what_is_wanted(
    device: Device, simulated: SimulatedDisk
) -> None:
    handles = SegmentCache(simulated, open_files=24)
    logs = logs_on(handles, 24)
    seen = count_syncs(device)
    for log in logs[:20]:
        append(log, batch_at(0))
    assert handles.open_count == 20
    assert seen == [], "nobody waits for the disk here"
    for log in logs[:20]:
        flush(log)
    for _ in range(SEARCHES_SPARED):
        handles.file(logs[20].segments[0])
        handles.close(logs[20].segments[0])
    for log in logs:
        append(log, batch_at(log.next_offset))
        flush(log)
    assert handles.open_count == 12


def test_if_too_many_wait_one_sync_makes_room(device: Device, simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, open_files=4)
    logs = logs_on(handles, 12)
    seen = count_syncs(device)
    for log in logs:
        append(log, batch_at(0))
        assert handles.open_count <= 4
    assert set(seen) == {Operation.SYNC_EVERYTHING}
    assert len(seen) <= 3
    assert all(log.flushed_offset == 0 for log in logs), "a log learns of its flush only through a ticket"
    for log in logs:
        flush(log)
        assert log.flushed_offset == 1


def test_who_reads_finds_room_although_who_writes_has_searched_in_vain(simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, open_files=2)
    logs = logs_on(handles, 3)
    for log in logs:
        append(log, batch_at(0))
    assert all(len(read_all(log)) == 1 for log in logs)


def leave_descriptors(simulated: SimulatedDisk, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system does it: `count` files of this disk can be open at once."""
    honest_open = simulated.open
    are_open: list[SimulatedFile] = []

    def open_if_any_is_left(path: str, *, create: bool = False) -> SimulatedFile:
        are_open[:] = [file for file in are_open if not file._is_closed]
        if len(are_open) >= count:
            raise os_error(errno.EMFILE, path)
        are_open.append(honest_open(path, create=create))
        return are_open[-1]

    monkeypatch.setattr(simulated, "open", open_if_any_is_left)


def test_without_a_descriptor_one_sync_makes_room(
    device: Device, simulated: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = SegmentCache(simulated, open_files=100)
    logs = logs_on(handles, 12)
    leave_descriptors(simulated, 4, monkeypatch)
    seen = count_syncs(device)
    for log in logs:
        append(log, batch_at(0))
    assert set(seen) == {Operation.SYNC_EVERYTHING}
    assert len(seen) <= 3


def test_a_failed_sync_stops_the_node(
    device: Device, simulated: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = SegmentCache(simulated)
    logs = logs_on(handles, 3)
    leave_descriptors(simulated, 2, monkeypatch)
    append(logs[0], batch_at(0))
    append(logs[1], batch_at(0))
    device.fail(Operation.SYNC_EVERYTHING)
    with pytest.raises(DiskFailure, match="sync"):
        append(logs[2], batch_at(0))


def test_a_leased_file_stays_open_so_that_its_slices_learn_of_a_cut(simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, open_files=2)
    logs = logs_on(handles, 6)
    append(logs[0], batch_at(0), batch_at(1))
    flush(logs[0])
    piece = logs[0].read(0, 1 << 20, 2, at_least_one=True)
    assert piece is not None
    for log in logs[1:]:
        append(log, batch_at(0))
        flush(log)
    logs[0].truncate(1)
    assert not piece.is_current
    piece.release()


def test_indexes_leave_memory_when_others_are_used(simulated: SimulatedDisk) -> None:
    handles = SegmentCache(simulated, index_entries=6)
    log = create_log(LogId(TopicId(bytes(16)), 0), "orders", handles, SETTINGS)
    for offset in range(60):
        append(log, batch_at(offset))
    for offset in range(60):
        read = log.read(offset, 100, 60, at_least_one=True)
        assert read is not None
        read.release()
    sealed = log.segments[:-1]
    loaded = [segment for segment in sealed if segment.index is not None]
    assert len(sealed) > 4
    assert 0 < sum(len(segment.index or ()) for segment in loaded) <= 6
