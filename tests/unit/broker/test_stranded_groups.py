"""Groups that have read what is lost are found by what they committed, in transactions and without."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.identity import Identity
from headrace.broker.rescue.stranded import Stranded, stranded_groups
from headrace.broker.rescue.survivor import Survivor
from headrace.coordinators.records import LogRecord, encode
from headrace.model.names import LogId, NodeId, TopicId, TopicPartition
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk
from headrace.storage.files import layout
from headrace.storage.integrity.salvage import find_log
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.markers import Marker
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.unit.storage.small_logs import append, batch_at, marker_at

if TYPE_CHECKING:
    from headrace.storage.log.partition_log import PartitionLog

OFFSETS = LogId(TopicId(b"positions".ljust(16, b"-")), 0)
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
END = 100


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Device(Random(1)))


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    return create_log(OFFSETS, "__consumer_offsets", SegmentCache(disk), LogSettings())


def commit(log: PartitionLog, group: str, place: TopicPartition, offset: int | None, *, producer_id: int = -1) -> None:
    value = None if offset is None else OffsetCommitValue(offset)
    key, encoded = encode(LogRecord(OffsetCommitKey(group, *place), value))
    batch = encode_batch(
        [(1000, key, encoded, ())],
        base_offset=log.next_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=log.next_offset if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    append(log, batch)


def found(disk: SimulatedDisk, log: PartitionLog) -> tuple[list[Stranded], int]:
    log.close(is_clean=True)
    survivor = Survivor(
        Identity("old", NodeId(1)),
        None,
        "",
        {OFFSETS: find_log(disk, layout.directory_of(OFFSETS))},
        {OFFSETS: TopicPartition("__consumer_offsets", 0)},
    )
    positions = stranded_groups(disk, survivor, {ORDERS: END})
    return positions.stranded, positions.unreadable_batches


def test_who_is_beyond_the_end_is_named_and_who_is_at_it_is_not(disk: SimulatedDisk, log: PartitionLog) -> None:
    commit(log, "beyond", ORDERS, END + 1)
    commit(log, "at the end", ORDERS, END)
    commit(log, "went back", ORDERS, END + 50)
    commit(log, "went back", ORDERS, END - 50)
    commit(log, "gave up", ORDERS, END + 50)
    commit(log, "gave up", ORDERS, None)
    commit(log, "of a topic that is gone", OTHER, 5)
    assert found(disk, log) == ([Stranded("beyond", ORDERS, END + 1, END)], 0)


def test_a_position_of_a_transaction_counts_once_it_is_committed(disk: SimulatedDisk, log: PartitionLog) -> None:
    commit(log, "committed", ORDERS, END + 1, producer_id=7)
    commit(log, "aborted", ORDERS, END + 1, producer_id=8)
    commit(log, "open", ORDERS, END + 1, producer_id=9)
    append(log, marker_at(log.next_offset, 7, Marker(is_commit=True, coordinator_epoch=0)))
    append(log, marker_at(log.next_offset, 8, Marker(is_commit=False, coordinator_epoch=0)))
    assert found(disk, log) == ([Stranded("committed", ORDERS, END + 1, END)], 0)


def test_what_cannot_be_read_is_counted_and_the_rest_is_read(disk: SimulatedDisk, log: PartitionLog) -> None:
    append(log, batch_at(0, epoch=-1))  # its key is none of a group's
    commit(log, "beyond", ORDERS, END + 1)
    assert found(disk, log) == ([Stranded("beyond", ORDERS, END + 1, END)], 1)
