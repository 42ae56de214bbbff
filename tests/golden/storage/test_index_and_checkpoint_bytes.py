"""The files of a small log, byte by byte.

Worked out by hand from Kafka's OffsetIndex (int32 offset of a batch's last record, relative to the file's base, int32
position), TimeIndex (int64 largest timestamp so far, int32 relative offset of the batch that brought it),
LogSegment.append (an entry for the first batch that begins more than `index.interval.bytes` after the last indexed one;
the time index gets one only if its timestamp grew), LogSegment.onBecomeInactiveSegment (a last time entry with the
largest timestamp of all), CheckpointFile (version, count, entries) and ProducerStateManager (the `.snapshot`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import SystemDisk
from headrace.storage.recovery.opening import create_log, open_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from tests.unit.storage.small_logs import DIRECTORY, LOG_ID, append, batch_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = LogSettings(index_interval_bytes=150, segment_bytes=500)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path)
    yield opened
    opened.close()


def write(disk: SystemDisk) -> None:
    """Batches of two records and 99 bytes; the second segment begins at offset 10."""
    log = create_log(LOG_ID, "orders", SegmentCache(disk), SETTINGS)
    for number, time in enumerate([1000, 1500, 1400, 1300, 1200, 2000]):
        batch = batch_at(
            2 * number,
            count=2,
            value_bytes=11,
            timestamps=[time, time],
            epoch=number // 4,
            producer_id=77,
            sequence=2 * number,
        )
        assert len(batch) == 99
        append(log, batch)
    log.close()


def test_index_bytes(disk: SystemDisk) -> None:
    write(disk)
    first = disk.read_file(f"{DIRECTORY}/00000000000000000000.index")
    # Positions 0, 99, 198, 297, 396. 198 is the first beyond 150; 396 is the first more than 150 beyond 198.
    assert first.hex(" ", 4) == "00000005 000000c6 00000009 0000018c"
    assert disk.read_file(f"{DIRECTORY}/00000000000000000010.index") == b""


def test_time_index_bytes(disk: SystemDisk) -> None:
    write(disk)
    first = disk.read_file(f"{DIRECTORY}/00000000000000000000.timeindex")
    # At position 198 the largest timestamp is 1500, in the batch that ends with offset 3. It never grows again.
    assert first.hex(" ", 4) == "00000000 000005dc 00000003"
    # The second segment has too few bytes for an entry, but closing adds its largest timestamp.
    second = disk.read_file(f"{DIRECTORY}/00000000000000000010.timeindex")
    assert second.hex(" ", 4) == "00000000 000007d0 00000001"


def test_leader_epoch_checkpoint_bytes(disk: SystemDisk) -> None:
    write(disk)
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n0 0\n1 8\n"


def test_snapshot_bytes(disk: SystemDisk) -> None:
    write(disk)
    snapshot = disk.read_file(f"{DIRECTORY}/00000000000000000010.snapshot")
    assert snapshot[:2].hex() == "0001"  # version
    assert snapshot[6:10].hex() == "00000005"  # the five batches that are remembered
    last = struct.unpack(">qhiqiqiq", snapshot[-46:])
    # Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's offset.
    assert last == (77, 0, 9, 9, 1, 1200, -1, -1)
    assert disk.exists(f"{DIRECTORY}/00000000000000000012.snapshot")


def test_file_names(disk: SystemDisk) -> None:
    write(disk)
    assert disk.list(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000010.index",
        "00000000000000000010.log",
        "00000000000000000010.snapshot",
        "00000000000000000010.timeindex",
        "00000000000000000012.snapshot",
        "leader-epoch-checkpoint",
        "partition.name",
    ]


def test_batches_are_written_as_they_came(disk: SystemDisk) -> None:
    write(disk)
    log, _ = open_log(LOG_ID, SegmentCache(disk), SETTINGS, recovery_point=12)
    assert disk.read_file(f"{DIRECTORY}/00000000000000000010.log") == bytes(
        batch_at(10, count=2, value_bytes=11, timestamps=[2000, 2000], epoch=1, producer_id=77, sequence=10)
    )
    log.close()
