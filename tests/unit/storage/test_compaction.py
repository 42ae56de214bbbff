"""What compaction keeps and drops, case by case; and a power cut at every step of it."""

from __future__ import annotations

import sys
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.simulation.environment.device import Device, Operation
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.compaction.choice import assess
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import CleaningJob, Damaged, Source, decode_event, encode_event
from headrace.storage.compaction.key_map import SLOT_BYTES, KeyMap
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.compaction.sieve import INFLATE_MAX, AbortedSpan, LastEntry
from headrace.storage.files import layout
from headrace.storage.files.cleaner_checkpoint import CleanerCheckpoint
from headrace.storage.files.damage import DamagedLog, DamagedRange, UnreadableRecords
from headrace.storage.integrity.segment_check import SegmentCheck
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments import replacement
from headrace.storage.segments.replacement import CleanedRun, NewSegment
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.segments.segment_span import SealedSegment
from headrace.storage.settings import CompactionSettings, LogSettings
from headrace.wire.batches.header import HEADER, Codec, read_header
from headrace.wire.batches.header import seal as seal_batch
from headrace.wire.batches.markers import Marker
from headrace.wire.batches.records import Record, encode_batch
from tests.unit.storage.compacted_logs import PLENTY, compact, flush, held, mark_gaps, read_committed, values_of
from tests.unit.storage.small_logs import (
    DIRECTORY,
    FIRST_MS,
    LOG_ID,
    append,
    end_if_cut,
    marker_at,
    new_log,
    read_all,
    reopened,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.runtime.disk import Disk
    from headrace.storage.log.partition_log import PartitionLog

SETTINGS = LogSettings(segment_bytes=1000, index_interval_bytes=150, retention_ms=None)
LATER_MS = FIRST_MS + 100_000
LOTS = 40  # what a power cut leaves of a swap, for each of its steps


def write(
    log: PartitionLog,
    *pairs: tuple[bytes, bytes | None],
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    append_time: int | None = None,
) -> int:
    """One batch; its offset."""
    offset = log.next_offset
    batch = encode_batch(
        [(FIRST_MS + offset + number, key, value, [("h", b"x")]) for number, (key, value) in enumerate(pairs)],
        base_offset=offset,
        codec=codec,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        is_transactional=is_transactional,
        log_append_time=append_time,
    )
    append(log, batch)
    return offset


def end(log: PartitionLog, producer_id: int, *, is_commit: bool) -> int:
    offset = log.next_offset
    append(log, marker_at(offset, producer_id, Marker(is_commit, 0)))
    return offset


def seal(log: PartitionLog) -> None:
    log.roll()
    flush(log)


def records_in(log: PartitionLog) -> list[Record]:
    return [record for header, records in held(log) if not header.is_control for record in records]


def offsets_in(log: PartitionLog) -> list[int]:
    return [record.offset for record in records_in(log)]


def keys_in(log: PartitionLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records_in(log)]


# ---- records


@pytest.mark.parametrize("codec", list(Codec))
def test_the_newest_record_of_each_key_stays_as_it_was(simulated: SimulatedDisk, codec: Codec) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=codec)
    write(log, (b"c", b"1"), (b"b", b"2"), (b"d", b"1"), codec=codec)
    before = {record.offset: record for record in records_in(log)}
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert [before[offset] for offset in (2, 3, 4, 5)] == records_in(log)
    first = held(log)[0].header
    assert (first.base_offset, first.last_offset, first.record_count, first.codec) == (0, 2, 1, codec)
    assert first.max_timestamp == FIRST_MS + 2


def test_the_newest_time_of_a_trimmed_batch_is_not_that_of_its_last_record(simulated: SimulatedDisk) -> None:
    """Else a search by time would pass over it, and retention take it for older than it is."""
    log = new_log(simulated, SETTINGS)
    times = {b"a": FIRST_MS + 70, b"b": FIRST_MS + 90, b"c": FIRST_MS + 40, b"d": FIRST_MS + 20}
    append(log, encode_batch([(time_ms, key, b"1", ()) for key, time_ms in times.items()], leader_epoch=0))
    write(log, (b"b", b"2"))
    seal(log)
    compact(log, now_ms=LATER_MS)
    first = held(log)[0].header
    assert (first.record_count, first.max_timestamp) == (3, FIRST_MS + 70)


def test_records_without_a_key_go(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    append(log, encode_batch([(FIRST_MS, None, b"no key", ()), (FIRST_MS, b"a", b"1", ())], leader_epoch=0))
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert keys_in(log) == [(b"a", b"1")]


def test_an_empty_key_is_a_key(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"", b"1"), (b"a", b"1"), (b"", b"2"))
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert keys_in(log) == [(b"a", b"1"), (b"", b"2")]


def test_times_of_arrival_stay(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"b", None), append_time=FIRST_MS + 5)
    write(log, (b"a", b"2"), append_time=FIRST_MS + 9)
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert [(record.offset, record.timestamp) for record in records_in(log)] == [(1, FIRST_MS + 5), (2, FIRST_MS + 9)]


def test_what_is_not_sealed_stays(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"))
    seal(log)
    write(log, (b"a", b"2"))
    flush(log)
    compact(log, now_ms=LATER_MS)
    assert keys_in(log) == [(b"a", b"1"), (b"a", b"2")]


def test_the_end_of_an_emptied_log_can_be_reached(simulated: SimulatedDisk) -> None:
    """Its last batch is dropped in every sense but one: it still says where the log ends."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"))
    write(log, (b"a", None))
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=0)
    compact(log, now_ms=LATER_MS, delete_retention_ms=0)
    assert keys_in(log) == []
    (last,) = held(log)
    assert (last.header.base_offset, last.header.next_offset, last.header.record_count) == (1, 2, 0)
    assert log.find_timestamp(FIRST_MS) is None
    assert log.max_timestamp() is None
    log = reopened(log)
    assert log.next_offset == 2


# ---- tombstones


def test_a_tombstone_stays_until_its_horizon(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"b", b"1"))
    write(log, (b"a", None), (b"c", b"1"))
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=50)
    assert keys_in(log) == [(b"b", b"1"), (b"a", None), (b"c", b"1")]
    assert held(log)[1].header.delete_horizon_ms == LATER_MS + 50
    assert records_in(log)[1].timestamp == FIRST_MS + 2
    assert log.cleaner_checkpoint == CleanerCheckpoint(4, LATER_MS + 50)
    compact(log, now_ms=LATER_MS + 49, delete_retention_ms=1 << 40)
    assert keys_in(log) == [(b"b", b"1"), (b"a", None), (b"c", b"1")]
    compact(log, now_ms=LATER_MS + 50, delete_retention_ms=1 << 40)
    assert keys_in(log) == [(b"b", b"1"), (b"c", b"1")]
    assert log.cleaner_checkpoint == CleanerCheckpoint(4, -1)


def test_a_tombstone_may_stay_for_ever(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", None), (b"b", b"1"))
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=2**63 - 1)
    assert [(record.key, record.timestamp) for record in records_in(log)] == [(b"a", FIRST_MS), (b"b", FIRST_MS + 1)]


@pytest.mark.parametrize("append_time", [None, FIRST_MS])
@pytest.mark.parametrize("time_ms", [-(2**63), -1, 2**63 - 1])
def test_no_time_that_a_producer_may_send_stops_compaction(
    simulated: SimulatedDisk, time_ms: int, append_time: int | None
) -> None:
    log = new_log(simulated, SETTINGS)
    append(log, encode_batch([(time_ms, b"a", None, ())], leader_epoch=0, log_append_time=append_time))
    write(log, (b"b", b"1"))
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=50)
    assert keys_in(log) == [(b"a", None), (b"b", b"1")]
    if time_ms > -(2**63):
        assert records_in(log)[0].timestamp == (time_ms if append_time is None else append_time)
    compact(log, now_ms=LATER_MS + 50)
    assert keys_in(log) == [(b"b", b"1")]


# ---- transactions and producers


def test_aborted_records_go_and_committed_ones_stay(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"old"), (b"b", b"old"))
    write(log, (b"a", b"aborted"), producer_id=1, sequence=0, is_transactional=True)
    write(log, (b"b", b"committed"), producer_id=2, sequence=0, is_transactional=True)
    end(log, 1, is_commit=False)
    end(log, 2, is_commit=True)
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert keys_in(log) == [(b"a", b"old"), (b"b", b"committed")]
    assert values_of(read_committed(log, 0, log.next_offset)[0]) == {b"a": b"old", b"b": b"committed"}
    assert log.transaction_indexes.aborted_between(0, log.next_offset) == []


def test_an_open_transaction_holds_up_all_that_follows(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"a", b"2"))
    seal(log)
    write(log, (b"a", b"3"), producer_id=1, sequence=0, is_transactional=True)
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert keys_in(log) == [(b"a", b"2"), (b"a", b"3")]


def test_a_marker_stays_as_long_as_its_transaction(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"b", b"1"), producer_id=1, sequence=0, is_transactional=True)
    marker = end(log, 1, is_commit=True)
    write(log, (b"a", b"2"))
    seal(log)
    for turn in range(3):
        compact(log, now_ms=LATER_MS + turn * 1000, delete_retention_ms=10)
    assert marker in [header.base_offset for header, _ in held(log) if header.is_control]
    remove_snapshots(log)
    log = reopened(log)
    producer = log.producers.get(1)
    assert producer is not None
    assert not producer.has_open_transaction


def test_a_marker_goes_after_its_transaction(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), producer_id=1, sequence=0, is_transactional=True)
    end(log, 1, is_commit=True)
    write(log, (b"a", b"2"), producer_id=1, sequence=1, is_transactional=True)
    end(log, 1, is_commit=True)
    write(log, (b"z", b"1"))
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=10)
    assert [header.base_offset for header, _ in held(log) if header.is_control] == [1, 3]
    compact(log, now_ms=LATER_MS + 10, delete_retention_ms=10)
    assert [header.base_offset for header, _ in held(log) if header.is_control] == [3]


@pytest.mark.parametrize("is_completed_at_start", [False, True])
def test_no_snapshot_is_left_that_knows_a_transaction_without_its_end(
    simulated: SimulatedDisk, device: Device, is_completed_at_start: bool
) -> None:
    """It would say that the transaction is open, and no marker after it would end it: readers would wait for ever."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), producer_id=1, sequence=0, is_transactional=True)
    write(log, (b"z", b"1" * 800))
    seal(log)
    end(log, 1, is_commit=True)
    write(log, (b"a", b"2" * 800))
    seal(log)
    for _ in range(2):
        log.producers.expire(LATER_MS, 0)
    compact(log, now_ms=LATER_MS, delete_retention_ms=10)

    def crash(operation: Operation, path: str) -> None:
        if operation is Operation.RENAME and is_completed_at_start:
            raise LightsOut

    device.watch(crash)
    with suppress(LightsOut):
        compact(log, now_ms=LATER_MS + 10, delete_retention_ms=10)
    device.unwatch(crash)
    # A power cut may take the newest one, which was not flushed yet.
    simulated.remove(layout.stem(DIRECTORY, log.segments[-1].base_offset) + layout.SNAPSHOT)
    log = reopened(log, is_clean=False)
    assert [header.base_offset for header, _ in held(log)] == [1, 3]
    assert log.producers.transactions.first_unstable_offset < 0


def test_a_producer_keeps_its_sequence(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), producer_id=7, sequence=0)
    write(log, (b"a", b"2"), (b"a", b"3"), producer_id=7, sequence=1)
    write(log, (b"a", b"4"))
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert [header.record_count for header, _ in held(log)] == [0, 1]
    remove_snapshots(log)
    log = reopened(log)
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.next_sequence == 3


def remove_snapshots(log: PartitionLog) -> None:
    for name in log.disk.list(log.directory):
        if name.endswith(layout.SNAPSHOT):
            log.disk.remove(f"{log.directory}/{name}")


# ---- more keys than memory, and many segments


def test_more_keys_than_fit_take_more_passes(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    for turn in range(3):
        for number in range(50):
            write(log, (b"key %d" % number, b"%d" % turn))
    seal(log)
    ends = []
    while log.cleaner_checkpoint is None or log.cleaner_checkpoint.clean_end_offset < log.next_offset:
        finished = compact(log, now_ms=LATER_MS, key_map_bytes=20 * SLOT_BYTES)
        assert finished is not None
        assert finished.keys <= 15
        ends.append(finished.clean_end_offset)
    assert len(ends) >= 10
    assert ends == sorted(set(ends)), "a pass did not get any further"
    assert keys_in(log) == [(b"key %d" % number, b"2") for number in range(50)]


def test_small_segments_become_one(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    for _ in range(200):
        write(log, (b"a", b"v" * 30))
    seal(log)
    count = len(log.segments)
    for _ in range(3):
        compact(log, now_ms=LATER_MS)
    assert count > 10
    assert len(log.segments) <= 3
    assert offsets_in(log) == [199]
    assert end_if_cut(log, 200) == 200


def test_what_outgrows_its_segment_goes_on_in_another(simulated: SimulatedDisk) -> None:
    """The time until which tombstones are kept is far from theirs, and takes room in every record."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"last", b"1"))
    while len(log.segments) < 4:
        write(log, *((b"gone %d" % (log.next_offset + number), None) for number in range(4)))
    write(log, (b"last", b"2"))
    seal(log)
    records, sources = records_in(log)[1:], log.segments
    compact(log, now_ms=LATER_MS, delete_retention_ms=1 << 40)
    assert records_in(log) == records
    assert sum(segment.size for segment in log.segments) > sum(segment.size for segment in sources)
    assert max(segment.size for segment in log.segments) <= SETTINGS.segment_bytes
    assert len(log.segments) > len(sources)
    for again in (log, reopened(log), reopened(log, recovery_point=0, is_clean=False)):
        assert records_in(again) == records
        for record in records:
            assert again.find_timestamp(record.timestamp) is not None
            assert held(again, record.offset)[0].records[-1].offset >= record.offset
    compact(again, now_ms=LATER_MS + (1 << 40))
    assert keys_in(again) == [(b"last", b"2")]


def test_a_pass_that_would_multiply_a_log_is_given_up(
    simulated: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise has room for so many segments only. Here, to have it soon, for one."""
    monkeypatch.setattr(layout, "SWAP_PARTS_MAX", 1)
    log = new_log(simulated, SETTINGS)
    while len(log.segments) < 2:
        write(log, *((b"gone %d" % (log.next_offset + number), None) for number in range(4)))
    seal(log)
    files = simulated.list(DIRECTORY)
    with pytest.raises(UnreadableRecords, match="more than 1 segments"):
        compact(log, now_ms=LATER_MS, delete_retention_ms=1 << 40)
    assert simulated.list(DIRECTORY) == files


def test_a_second_pass_changes_nothing(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    for number in range(100):
        write(log, (b"key %d" % (number % 40), b"v" * 30))
    seal(log)
    for _ in range(4):
        compact(log, now_ms=LATER_MS)
    upheavals = log.version
    compact(log, now_ms=LATER_MS)
    assert log.version == upheavals


def test_a_reader_with_a_slice_is_not_disturbed(disk: Disk) -> None:
    log = new_log(disk, SETTINGS)
    for number in range(20):
        write(log, (b"a", b"%d" % number))
    seal(log)
    piece = log.read(0, 1 << 20, log.next_offset, at_least_one=True)
    assert piece is not None
    before = piece.read()
    compact(log, now_ms=LATER_MS)
    assert piece.is_current
    assert piece.read() == before
    piece.release()
    assert offsets_in(log) == [19]


def test_times_are_found_after_compaction(disk: Disk) -> None:
    log = new_log(disk, SETTINGS)
    for number in range(60):
        write(log, (b"key %d" % (number % 50), b"v" * 20))
    seal(log)
    compact(log, now_ms=LATER_MS)
    found = log.find_timestamp(FIRST_MS + 5)
    assert found is not None
    assert found.offset == 10
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 59


def test_damage_is_told_and_nothing_is_touched(simulated: SimulatedDisk, device: Device) -> None:
    log = new_log(simulated, SETTINGS)
    for number in range(20):
        write(log, (b"a", b"%d" % number))
    seal(log)
    device.flip_bit(f"{DIRECTORY}/{0:020}.log", 130)
    with pytest.raises(DamagedLog, match="CRC"):
        compact(log, now_ms=LATER_MS)
    assert not [name for name in simulated.list(DIRECTORY) if name.endswith((layout.CLEANED, layout.SWAP))]


# ---- the lights go out


def test_records_that_were_never_readable_are_no_damage_of_the_disk(simulated: SimulatedDisk) -> None:
    """A topic may have been compacted only after somebody sent them."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"))
    batch = encode_batch([(FIRST_MS, b"a", b"2", ())], base_offset=1, leader_epoch=0)
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(attributes=Codec.GZIP))
    seal_batch(batch)
    append(log, batch)
    seal(log)
    with pytest.raises(UnreadableRecords, match="is whole, as its producer sent it") as met:
        compact(log, now_ms=LATER_MS)
    assert "Restore" not in str(met.value)
    told = decode_event(encode_event(Damaged.from_error(met.value)))
    assert isinstance(told, Damaged)
    assert str(told.as_error()) == str(met.value)
    assert [header.base_offset for header in read_all(log)] == [0, 1]


class LightsOut(BaseException):
    pass


@pytest.mark.parametrize("is_power_cut", [True, False])
@pytest.mark.parametrize("is_growing", [False, True])
def test_a_crash_at_every_step_loses_nothing_and_brings_nothing_back(is_growing: bool, is_power_cut: bool) -> None:
    step = 0
    while _crash_at(step, is_growing=is_growing, is_power_cut=is_power_cut):
        step += 1
    assert step > 30, "there are more steps than that in a compaction"


@pytest.mark.parametrize("lot", range(LOTS))
def test_whatever_a_power_cut_leaves_of_a_swap_its_start_goes_on_from_there(lot: int) -> None:
    """At each step of it each name that was not synced may be there or not: one lot for each shows few of all ways."""
    step = 0
    while _crash_in_a_swap(step, lot):
        step += 1
    assert step > 10, "there are more steps than that in a swap"


def _crash_in_a_swap(step: int, lot: int) -> bool:
    """False once the swap ended before the step was reached."""
    device = Device(Random(f"step {step}, lot {lot}"))
    log = new_log(SimulatedDisk(device), SETTINGS)
    for number in range(12):
        write(log, (b"key %d" % (number % 4), b"%d" % number))
        if number % 4 == 3:
            log.roll()
    seal(log)
    assert len(log.segments) == 4, "three of them become one"
    mark_gaps(log)
    settings = CompactionSettings(min_dirty_ratio=0)
    found = dirtiness_of(log, settings, log.flushed_offset, LATER_MS)
    log.disk.sync_everything()
    job = cleaning_job(log, settings, found, now_ms=LATER_MS, key_map_bytes=PLENTY)
    (cleaned,) = [event for event in clean(log.disk, job) if isinstance(event, CleanedRun)]
    left = step

    def watch(operation: Operation, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise LightsOut

    device.watch(watch)
    is_crashed = False
    try:
        replacement.promise(log.disk, DIRECTORY, cleaned)
        log.compaction.replace(cleaned)
        replacement.conclude(log.disk, DIRECTORY, cleaned)
    except LightsOut:
        is_crashed = True
    device.unwatch(watch)
    device.power_cut()
    opened, _ = open_log(LOG_ID, SegmentCache(SimulatedDisk(device)), SETTINGS, recovery_point=log.next_offset)
    assert values_of(records_in(opened)) == {b"key %d" % number: b"%d" % (number + 8) for number in range(4)}
    assert opened.next_offset == log.next_offset
    return is_crashed


def _crash_at(step: int, *, is_growing: bool, is_power_cut: bool) -> bool:
    """False once compaction ended before the step was reached."""
    device = Device(Random(step))
    log = new_log(SimulatedDisk(device), SETTINGS)
    expected = {b"key %d" % number: b"%d" % (number + 24) for number in range(1, 8)}
    for number in range(24 if is_growing else 0, 32):
        write(log, (b"key %d" % (number % 8), b"%d" % number))
    write(log, (b"key 0", None))
    for number in range(9 if is_growing else 0):
        write(log, *((b"gone %d" % (number * 4 + turn), None) for turn in range(4)))
    seal(log)
    sources = log.segments
    retention_ms = 1 << 40 if is_growing else 10  # a time so far away takes room in every record
    left = step

    def watch(operation: Operation, path: str) -> None:
        nonlocal left
        if operation is not Operation.READ:
            left -= 1
            if left < 0:
                raise LightsOut

    log.disk.sync_everything()
    device.watch(watch)
    is_crashed = False
    try:
        compact(log, now_ms=LATER_MS, delete_retention_ms=retention_ms)
        assert not is_growing or {one.base_offset for one in log.segments} - {one.base_offset for one in sources}
        compact(log, now_ms=LATER_MS + retention_ms, delete_retention_ms=10)  # takes the tombstones away
    except LightsOut:
        is_crashed = True
    device.unwatch(watch)
    if is_power_cut:
        device.power_cut()
    for _ in range(2):  # also a crash right after the start
        opened, _ = open_log(
            LOG_ID, SegmentCache(SimulatedDisk(device)), SETTINGS, recovery_point=log.next_offset, is_synced=True
        )
        assert values_of(records_in(opened)) == expected
        assert opened.next_offset == log.next_offset
        if is_power_cut:
            device.power_cut()
    compact(opened, now_ms=LATER_MS + retention_ms, delete_retention_ms=0)
    compact(opened, now_ms=LATER_MS + retention_ms, delete_retention_ms=0)
    assert values_of(records_in(opened)) == expected
    assert len(offsets_in(opened)) == len(expected)
    return is_crashed


@pytest.mark.parametrize("seed", range(20))
def test_times_are_found_after_a_power_cut(seed: int) -> None:
    """Indexes below the recovery point are taken at their word: what is left of one must not be less than all."""
    device = Device(Random(seed))
    settings = replace(SETTINGS, segment_bytes=10_000)
    log = new_log(SimulatedDisk(device), settings)
    for number in range(60):
        time_ms = LATER_MS if number == 20 else FIRST_MS + number
        batch = encode_batch([(time_ms, b"key %d" % (number % 40), b"v" * 10, ())], base_offset=number, leader_epoch=0)
        append(log, batch)
    seal(log)
    log.hints.save()
    log.disk.sync_everything()
    compact(log, now_ms=LATER_MS)
    device.power_cut()
    opened, _ = open_log(
        LOG_ID, SegmentCache(SimulatedDisk(device)), settings, recovery_point=log.next_offset, is_synced=True
    )
    found = opened.max_timestamp()
    assert found is not None
    assert (found.timestamp, found.offset) == (LATER_MS, 20)


# ---- what is due


def segments(*sizes: int, newest_ms: Sequence[int] = ()) -> list[SealedSegment]:
    times = list(newest_ms) or [FIRST_MS] * len(sizes)
    return [
        SealedSegment(10 * number, 10 * number + 10, size, times[number], times[number])
        for number, size in enumerate(sizes)
    ]


def look(found: Sequence[SealedSegment], clean_end: int, settings: CompactionSettings, **changes: int) -> object:
    how = {"start_offset": 0, "safe_offset": 1000, "now_ms": FIRST_MS + 1000, **changes}
    return assess(found, CleanerCheckpoint(clean_end), settings, **how)


def test_a_log_is_due_when_enough_of_it_is_dirty() -> None:
    half = CompactionSettings(min_dirty_ratio=0.5)
    assert look(segments(100, 100), 10, half) == (10, 20, 100, 100, False)
    assert look(segments(100, 101), 10, half) == (10, 20, 100, 101, True)
    assert look(segments(100, 100), 5, half) == (5, 20, 50, 150, True)
    assert look(segments(100, 100), 20, half) == (20, 20, 200, 0, False)


def test_only_what_is_safe_counts() -> None:
    assert look(segments(100, 100), 0, CompactionSettings(), safe_offset=19) == (0, 10, 0, 100, True)
    assert look(segments(100, 100), 0, CompactionSettings(), safe_offset=9) == (0, 0, 0, 0, False)


def test_young_records_wait_and_old_ones_do_not() -> None:
    found = segments(100, 100, newest_ms=[FIRST_MS, FIRST_MS + 900])
    assert look(found, 0, CompactionSettings(min_lag_ms=500)) == (0, 10, 0, 100, True)
    lazy = CompactionSettings(min_dirty_ratio=1.0, max_lag_ms=500)
    assert look(found, 0, lazy) == (0, 20, 0, 200, True)
    assert look(found, 10, lazy) == (10, 20, 100, 100, False)


def test_a_log_is_due_when_its_tombstones_may_go() -> None:
    mark = CleanerCheckpoint(20, FIRST_MS + 5)
    for now_ms, is_due in ((FIRST_MS + 4, False), (FIRST_MS + 5, True)):
        how = {"start_offset": 0, "safe_offset": 1000, "now_ms": now_ms}
        assert assess(segments(1, 1), mark, CompactionSettings(), **how).is_due is is_due


# ---- damage


def checked(log: PartitionLog) -> list[DamagedRange]:
    found: list[DamagedRange] = []
    for span in log.spans.since(closed_only=False):
        check = SegmentCheck(log.disk, span)
        while check.step(PLENTY):
            pass
        found += check.damaged
    return found


def test_gaps_are_no_damage_whatever_the_settings_say_now(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    assert not log.may_have_gaps
    for turn in range(3):
        write(log, (b"a", b"%d" % turn))
        write(log, (b"b", b"%d" % turn))
        seal(log)
    compact(log, now_ms=LATER_MS)
    assert offsets_in(log) == [4, 5]
    for found in (log, reopened(log)):  # with settings that know of no compaction
        assert found.settings.compaction is None
        assert found.may_have_gaps
        assert checked(found) == []


@pytest.mark.parametrize("cut_at", [1, 2, 5, 10])
def test_a_log_that_is_cut_in_a_gap_ends_with_the_batch_before_it(simulated: SimulatedDisk, cut_at: int) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"z", b"1"))
    for number in range(10):
        write(log, (b"a", b"%d" % number))
    seal(log)
    compact(log, now_ms=LATER_MS)
    assert offsets_in(log) == [0, 10]
    log.truncate(cut_at)
    flush(log)
    log = reopened(log)
    assert (log.next_offset, offsets_in(log)) == (1, [0])
    write(log, (b"a", b"again"))
    assert offsets_in(log) == [0, 1]


def test_what_a_crash_took_from_the_end_of_a_segment_is_no_gap(simulated: SimulatedDisk) -> None:
    """Else a replica would go on behind it, and never ask its leader for what is missing."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"), (b"a", b"2"))
    seal(log)
    compact(log, now_ms=LATER_MS)
    write(log, (b"b", b"1"))
    kept_bytes = log.segments[-1].size
    lost = write(log, (b"c", b"1"))
    log.roll()
    write(log, (b"d", b"1"))
    simulated.open(log.segments[-2].log_path).truncate(kept_bytes)  # a power cut may leave just that of it
    log = reopened(log, recovery_point=lost, is_clean=False)
    assert log.next_offset == lost
    assert keys_in(log) == [(b"a", b"2"), (b"b", b"1")]


def test_a_gap_too_wide_for_an_index_lies_between_two_segments(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"))
    mark_gaps(log)
    far = [log.next_offset + distance for distance in (2**31, 2**31 + 9, 2**32)]
    append(log, *(encode_batch([(FIRST_MS, b"b", b"1", ())], base_offset=offset, leader_epoch=0) for offset in far))
    assert [segment.base_offset for segment in log.segments] == [0, far[0], far[1] + 1]
    for recovery_point in (0, log.next_offset):
        log = reopened(log, recovery_point=recovery_point, is_clean=False)
        assert offsets_in(log) == [0, *far]


def test_who_reads_a_segment_knows_when_another_has_taken_its_name(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    for turn in range(3):
        write(log, (b"a", b"%d" % turn))
        write(log, (b"b%d" % turn, b"stays"))
        seal(log)
    before = log.spans.since(closed_only=True)
    compact(log, now_ms=LATER_MS)
    (joined,) = log.spans.since(closed_only=True)
    assert joined.path == before[0].path
    assert joined.size > before[0].size
    assert [log.spans.has(span) for span in before] == [False, False, False]
    assert log.spans.has(joined)


def test_nothing_is_put_in_place_in_a_log_that_is_known_to_be_damaged(simulated: SimulatedDisk) -> None:
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", b"1"))
    seal(log)
    cleaned = CleanedRun((NewSegment(0, 10),), 1, 1)
    assert log.compaction.can_replace(cleaned)
    log.damage.add(DamagedRange(log.segments[0].log_path, 0, 0, 1, "a bit is wrong"))
    assert not log.compaction.can_replace(cleaned)


# ---- memory


def peak_bytes_of(log: PartitionLog) -> int:
    """What a pass takes at most, given up or not."""
    tracemalloc.start()
    try:
        with suppress(UnreadableRecords):
            compact(log, now_ms=LATER_MS, key_map_bytes=SLOT_BYTES * 1000)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_takes_memory_by_its_bytes_not_by_its_records(disk: Disk, codec: Codec) -> None:
    log = new_log(disk, replace(SETTINGS, segment_bytes=1 << 30))
    pairs: list[tuple[bytes, bytes | None]] = [(b"%d" % (number % 500), None) for number in range(10_000)]
    append(log, encode_batch([(FIRST_MS, key, value, ()) for key, value in pairs], leader_epoch=0, codec=codec))
    body_bytes = sum(len(key) + 10 for key, _ in pairs)
    seal(log)
    assert peak_bytes_of(log) < 8 * body_bytes, "so small are records that an object for each would take more"
    assert len(keys_in(log)) == 500


def test_a_batch_that_unfolds_too_far_is_given_up_in_time(disk: Disk) -> None:
    """It was written before its topic was compacted: nobody had opened it."""
    log = new_log(disk, replace(SETTINGS, segment_bytes=1 << 30))
    append(log, encode_batch([(FIRST_MS, b"a", bytes(INFLATE_MAX + 1), ())], leader_epoch=0, codec=Codec.ZSTD))
    seal(log)
    assert log.size_bytes < 1 << 20
    assert peak_bytes_of(log) < 1.1 * INFLATE_MAX
    with pytest.raises(UnreadableRecords, match="unfolds to more"):
        compact(log, now_ms=LATER_MS)


# ---- the map, and the way through the pipe


def test_the_key_map_knows_the_last_offset_and_its_limit() -> None:
    key_map = KeyMap(100 * SLOT_BYTES, 1_000_000)
    keys = [b"%d" % number for number in range(200)]
    taken = [key for offset, key in enumerate(keys) if key_map.put(key, offset)]
    assert taken == keys[:75]
    assert key_map.put(keys[3], 1000)
    assert [key_map.latest(key) for key in (keys[3], keys[74], keys[75])] == [1000, 74, -1]
    assert key_map.memory_bytes == 100 * SLOT_BYTES


def test_keys_that_were_chosen_to_get_in_each_others_way_do_not_where_the_salt_is_unknown() -> None:
    slots = 4096

    def crowding(salt: bytes, keys: Sequence[bytes]) -> int:
        """How many slots in a row are taken, at most: so many a search may have to pass by."""
        key_map = KeyMap(slots * SLOT_BYTES, slots, salt)
        for offset, key in enumerate(keys):
            key_map.put(key, offset)
        assert [key_map.latest(key) for key in keys] == list(range(len(keys)))
        taken = "".join("-" if offset < 0 else "x" for offset in key_map._offsets)
        return max(map(len, taken.split("-")))

    keys = [key for number in range(40_000) if _first_slot(key := b"%d" % number, slots) < slots // 100]
    assert len(keys) > 300
    assert crowding(b"", keys) > 300
    assert crowding(b"sixteen bytes of", keys) < 30


def _first_slot(key: bytes, slots: int) -> int:
    return int.from_bytes(blake2b(key, digest_size=16).digest()[:8], sys.byteorder) % slots


def test_a_job_and_its_events_travel_as_lines() -> None:
    job = CleaningJob(
        "topics/x", (Source(0, 5), Source(7, 9)), 3, 12, (AbortedSpan(1, 2, 3),), {4: LastEntry(5, 6)}, 1, 2, 3, 4, 5
    )
    assert CleaningJob.decode(job.encode()) == job
    cleaned = CleanedRun((NewSegment(1, 4), NewSegment(2, 4)), 3, 1)
    assert decode_event(encode_event(cleaned)) == cleaned
    with pytest.raises(ValueError, match="no event"):
        decode_event(b'{"event": "Unheard", "of": 1}')


def test_the_header_says_what_stays_of_it(simulated: SimulatedDisk) -> None:
    """Kafka reads these batches too: the bits and fields are those that it sets."""
    log = new_log(simulated, SETTINGS)
    write(log, (b"a", None), producer_id=3, sequence=0)
    seal(log)
    compact(log, now_ms=LATER_MS, delete_retention_ms=7)
    piece = log.read(0, 1 << 20, 1, at_least_one=True)
    assert piece is not None
    header = read_header(piece.read())
    piece.release()
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0x40, LATER_MS + 7, FIRST_MS)
