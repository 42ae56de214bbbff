"""A disk that cannot read: damage of one log, whoever reads, and nothing is cut. What the batches tell is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.simulation.environment.device import SECTOR
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import Damaged
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.compaction.workers import _next_event
from headrace.storage.files import layout
from headrace.storage.files.damage import DamagedLog
from headrace.storage.recovery.opening import open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import CompactionSettings, LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.storage.small_logs import FIRST_MS, LOG_ID, append, batch_at, log_of, marker_at, read_all, reopened

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.simulation.environment.device import Device
    from headrace.simulation.environment.disk import SimulatedDisk
    from headrace.storage.log.partition_log import PartitionLog

BATCHES = 40
AGED = LogSettings(segment_bytes=1000, index_interval_bytes=150, retention_ms=1)
LATER_MS = FIRST_MS + 10**9


def in_the_middle_of_a_batch(log: PartitionLog) -> None:
    log.retention.advance_start(1)
    log.reader.first_batch_offset()


READERS: dict[str, Callable[[PartitionLog], object]] = {
    "fetch": lambda log: log.read(3, 300, log.next_offset, at_least_one=True),
    "fetch of a whole segment": lambda log: log.read(1, 1 << 20, log.next_offset, at_least_one=True),
    "where the log begins": in_the_middle_of_a_batch,
    "lookup by time": lambda log: log.find_timestamp(FIRST_MS + 3),
    "newest record": lambda log: log.max_timestamp(),
    "retention": lambda log: log.retention.delete_expired(LATER_MS),
    "compaction's choice": lambda log: log.compaction.sealed_segments(times_from=0),
    "cut": lambda log: log.truncate(2),
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_meets_damage_of_that_log(simulated: SimulatedDisk, device: Device, reader: str) -> None:
    log = reopened(log_of(simulated, BATCHES, AGED))
    log.high_watermark = log.next_offset
    sizes = [len(device.file(segment.log_path).cached) for segment in log.segments]
    for sector in range(sizes[0] // SECTOR + 1):
        device.spoil(log.segments[0].log_path, sector * SECTOR)
    with pytest.raises(DamagedLog, match="the disk cannot read it") as met:
        READERS[reader](log)
    assert (met.value.path, met.value.offset) == (log.segments[0].log_path, 0)
    assert [len(device.file(segment.log_path).cached) for segment in log.segments] == sizes


def test_a_slice_that_cannot_be_sent_is_told_to_its_log(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, BATCHES)
    told: list[DamagedLog] = []
    log.reader.on_damage = told.append
    piece = log.read(0, 1 << 20, log.next_offset, at_least_one=True)
    assert piece is not None
    device.spoil(log.segments[0].log_path, 0)
    with pytest.raises(OSError, match="Input/output error") as met:
        piece.read()
    piece.failed(met.value)  # type: ignore[arg-type]  # a ReadFault, as nothing else is said of bytes
    assert [damage.path for damage in told] == [log.segments[0].log_path]


@pytest.mark.parametrize("recovery_point", [0, BATCHES])
def test_a_start_takes_what_it_cannot_read_for_damage_and_cuts_nothing(
    simulated: SimulatedDisk, device: Device, recovery_point: int
) -> None:
    log = log_of(simulated, BATCHES)
    log.close(is_clean=False)
    last = log.segments[-1].log_path
    size = len(device.file(last).cached)
    device.spoil(last, size - 1)
    with pytest.raises(DamagedLog, match="the disk cannot read it"):
        open_log(LOG_ID, SegmentCache(simulated), log.settings, recovery_point=recovery_point)
    assert len(device.file(last).cached) == size


@pytest.mark.parametrize("ending", [layout.INDEX, layout.TIME_INDEX, layout.ABORTED, layout.SNAPSHOT, layout.EPOCHS])
def test_what_the_batches_tell_is_made_anew(simulated: SimulatedDisk, device: Device, ending: str) -> None:
    log = log_of(simulated, BATCHES)
    append(log, batch_at(BATCHES, producer_id=7, sequence=0, is_transactional=True))
    append(log, marker_at(BATCHES + 1, 7, Marker(is_commit=False, coordinator_epoch=0)))
    for offset in range(BATCHES + 2, 2 * BATCHES):
        append(log, batch_at(offset))
    log.close()
    spoiled = [path for path, file in device.files() if path.endswith(ending) and len(file.cached)]
    assert spoiled
    for path in spoiled:
        device.spoil(path, 0)
    again = reopened(log)
    assert again.next_offset == 2 * BATCHES
    assert [header.base_offset for header in read_all(again)] == list(range(2 * BATCHES))
    found = again.find_timestamp(FIRST_MS + 5)
    assert found is not None
    assert found.offset == 5
    assert [it.producer_id for it in again.transaction_indexes.aborted_between(0, 2 * BATCHES)] == [7]


def test_compaction_that_cannot_read_says_which_log_is_damaged(simulated: SimulatedDisk, device: Device) -> None:
    log = log_of(simulated, BATCHES)
    settings = CompactionSettings(min_dirty_ratio=0, delete_retention_ms=1000)
    log = reopened(log)
    found = dirtiness_of(log, settings, log.next_offset, LATER_MS)
    job = cleaning_job(log, settings, found, now_ms=LATER_MS, key_map_bytes=1 << 20)
    device.spoil(log.segments[1].log_path, 0)
    steps = clean(simulated, job)
    while not isinstance(event := _next_event(steps), Damaged):
        assert event is not None, "a pass over a log that cannot be read came to its end"
    assert (event.path, event.offset) == (log.segments[1].log_path, log.segments[1].base_offset)
