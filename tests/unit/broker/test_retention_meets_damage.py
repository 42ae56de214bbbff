"""Damage is one partition's trouble: retention that meets it says so, and the node goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.partitions.deletion import delete_expired
from headrace.model.names import Millis
from headrace.runtime.disk import SystemDisk
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import read_header
from tests.unit.broker.small_partitions import SmallPartition
from tests.unit.storage.small_logs import FIRST_MS, append, batch_at, new_log, reopened

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker.partitions.partition import Partition

NEWEST = 20  # the record that tells how old the first segment is


def test_a_segment_whose_age_cannot_be_read_stays_and_is_told(tmp_path: Path) -> None:
    disk = SystemDisk(tmp_path)
    settings = LogSettings(segment_bytes=4000, index_interval_bytes=500, retention_ms=1)
    log = new_log(disk, settings)
    for offset in range(60):
        append(log, batch_at(offset, timestamps=[FIRST_MS + (10**6 if offset == NEWEST else offset)]))
    path = tmp_path / log.segments[0].log_path
    log = reopened(log)
    content = bytearray(path.read_bytes())
    size = read_header(content).size
    content[(NEWEST - 1) * size + 8] ^= 0x40  # its length
    path.write_bytes(content)
    partition = SmallPartition(log, disk).partition
    log.high_watermark = log.next_offset
    met: list[int] = []

    def on_damage(_: Partition, offset: int) -> None:
        met.append(offset)

    partition.on_damage = on_damage
    segments = len(log.segments)
    assert delete_expired(partition, Millis(FIRST_MS + 10**7)) is None
    assert len(log.segments) == segments
    assert len(met) == 1
    disk.close()
