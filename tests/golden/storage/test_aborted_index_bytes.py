"""The `.txnindex` of a small log, byte by byte.

Worked out by hand from Kafka's AbortedTxn (int16 version 0, then producer id, first offset, last offset and last stable
offset, int64 each) and ProducerStateManager.lastStableOffset (the first offset of the oldest transaction that is still
open, or what follows the marker).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import SystemDisk
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from tests.unit.storage.small_logs import DIRECTORY, LOG_ID, append, batch_at, marker_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABORT = Marker(is_commit=False, coordinator_epoch=0)
COMMIT = Marker(is_commit=True, coordinator_epoch=0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path)
    yield opened
    opened.close()


def write(disk: SystemDisk) -> None:
    log = create_log(LOG_ID, "orders", SegmentCache(disk), LogSettings())
    append(log, batch_at(0, count=3, producer_id=7, sequence=0, is_transactional=True))
    append(log, batch_at(3, count=2, producer_id=8, sequence=0, is_transactional=True))
    append(log, batch_at(5))
    append(log, marker_at(6, 8, ABORT))
    append(log, marker_at(7, 7, ABORT))
    append(log, batch_at(8, producer_id=8, sequence=2, is_transactional=True))
    append(log, marker_at(9, 8, COMMIT))
    append(log, marker_at(10, 9, ABORT))
    log.close()


def test_aborted_index_bytes(disk: SystemDisk) -> None:
    write(disk)
    packed = disk.read_file(f"{DIRECTORY}/00000000000000000000.txnindex")
    # Producer 8 aborts while 7 is open since offset 0. Then 7 does, and nobody is left: stable is what follows offset
    # 7. A commit leaves no entry, nor does the marker of a producer that wrote nothing here.
    expected = """
        0000 0000000000000008 0000000000000003 0000000000000006 0000000000000000
        0000 0000000000000007 0000000000000000 0000000000000007 0000000000000008
    """
    assert packed == bytes.fromhex(expected)


def test_a_log_without_aborts_has_no_such_file(disk: SystemDisk) -> None:
    log = create_log(LOG_ID, "orders", SegmentCache(disk), LogSettings())
    append(log, batch_at(0, producer_id=7, sequence=0, is_transactional=True))
    append(log, marker_at(1, 7, COMMIT))
    log.roll()
    log.close()
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".txnindex")]
