"""A log as lines: what is committed is in them, what is aborted is not, and what nobody decided is kept apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headrace.broker.membership.identity import Identity
from headrace.broker.rescue.decided import decided_transactions
from headrace.broker.rescue.survivor import Survivor
from headrace.cli.messages.line_parser import Message, json_lines
from headrace.cli.rescue.dump import Source, dump_log
from headrace.coordinators.records import LogRecord, encode
from headrace.coordinators.transactions.state import Status
from headrace.model.names import LogId, NodeId, TopicId, TopicPartition
from headrace.runtime.disk import SystemDisk
from headrace.storage.files import layout
from headrace.storage.integrity.salvage import find_log
from headrace.storage.recovery.opening import create_log
from headrace.storage.segments.segment_cache import SegmentCache
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import Codec, seal
from headrace.wire.batches.markers import Marker
from headrace.wire.batches.records import encode_batch
from headrace.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue, TransactionPartitions
from tests.unit.storage.small_logs import append, batch_at, marker_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.broker.rescue.decided import Decided
    from headrace.cli.rescue.dump import Dumped
    from headrace.storage.log.partition_log import PartitionLog

ORDERS, STATES = LogId(TopicId(b"orders".ljust(16, b"-")), 0), LogId(TopicId(b"states".ljust(16, b"-")), 0)
NAME = TopicPartition("orders", 0)
COMMIT, ABORT = Marker(is_commit=True, coordinator_epoch=0), Marker(is_commit=False, coordinator_epoch=0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path / "node")
    yield opened
    opened.close()


@pytest.fixture
def log(disk: SystemDisk) -> PartitionLog:
    return create_log(ORDERS, "orders", SegmentCache(disk), LogSettings())


def dumped(
    disk: SystemDisk,
    log: PartitionLog,
    out: Path,
    *,
    start_offset: int = 0,
    decided: Decided | None = None,
    keeps_aborted: bool = False,
) -> Dumped:
    log.close(is_clean=True)
    found = find_log(disk, layout.directory_of(ORDERS), start_offset, log.next_offset)
    return dump_log(disk, Source(NAME, found, "topics/orders/0"), out, decided or {}, keeps_aborted=keeps_aborted)


def offsets(out: Path, ending: str = ".jsonl") -> list[int]:
    path = out / f"topics/orders/0{ending}"
    return [json.loads(line)["offset"] for line in path.read_text().splitlines()]


def transactional(log: PartitionLog, producer_id: int) -> None:
    append(log, batch_at(log.next_offset, producer_id=producer_id, sequence=log.next_offset, is_transactional=True))


def end(log: PartitionLog, producer_id: int, marker: Marker) -> None:
    append(log, marker_at(log.next_offset, producer_id, marker))


@pytest.fixture
def three_transactions(log: PartitionLog) -> PartitionLog:
    """At 0 and 6 one that is committed, at 1 and 3 one that is aborted, at 5 one of the same producer that is open."""
    for step in (7, 8, None, 8, ABORT, 8, 7, COMMIT):
        if step is None:
            append(log, batch_at(log.next_offset))
        elif isinstance(step, Marker):
            end(log, 8 if step is ABORT else 7, step)
        else:
            transactional(log, step)
    return log


def test_what_is_aborted_is_left_out_and_what_is_open_is_kept_apart(
    disk: SystemDisk, three_transactions: PartitionLog, tmp_path: Path
) -> None:
    done = dumped(disk, three_transactions, tmp_path)
    assert (offsets(tmp_path), offsets(tmp_path, ".open.jsonl")) == ([0, 2, 6], [5])
    assert (done.records, done.aborted_records, done.open_records) == (3, 2, 1)
    assert done.open_file == "topics/orders/0.open.jsonl"


def test_what_is_aborted_may_be_kept(disk: SystemDisk, three_transactions: PartitionLog, tmp_path: Path) -> None:
    dumped(disk, three_transactions, tmp_path, keeps_aborted=True)
    assert (offsets(tmp_path), offsets(tmp_path, ".open.jsonl")) == ([0, 1, 2, 3, 6], [5])


@pytest.mark.parametrize(
    ("status", "expected"), [(Status.PREPARE_COMMIT, [0, 2, 5, 6]), (Status.PREPARE_ABORT, [0, 2, 6])]
)
def test_what_the_coordinator_has_decided_counts_without_its_marker(
    disk: SystemDisk, three_transactions: PartitionLog, tmp_path: Path, status: Status, expected: list[int]
) -> None:
    """Whoever asked for the commit was told that it is done as soon as it was decided."""
    decided = decided_transactions(disk, coordinator_of(disk, Status.ONGOING, status))
    dumped(disk, three_transactions, tmp_path, decided=decided)
    assert offsets(tmp_path) == expected
    assert not (tmp_path / "topics/orders/0.open.jsonl").exists()


@pytest.mark.parametrize("status", [Status.ONGOING, Status.COMPLETE_COMMIT, Status.EMPTY])
def test_only_an_end_under_way_is_decided_here(disk: SystemDisk, status: Status) -> None:
    assert decided_transactions(disk, coordinator_of(disk, Status.PREPARE_COMMIT, status)) == {}


def coordinator_of(disk: SystemDisk, *statuses: Status) -> Survivor:
    """A disk with the coordinator's log of a transactional id that has been through these."""
    log = create_log(STATES, "__transaction_state", SegmentCache(disk), LogSettings())
    for status in statuses:
        value = TransactionLogValue(
            producer_id=8,
            transaction_status=status,
            transaction_partitions=[TransactionPartitions("orders", [0])],
        )
        key, encoded = encode(LogRecord(TransactionLogKey("payer"), value))
        append(log, encode_batch([(1000, key, encoded, ())], base_offset=log.next_offset))
    log.close(is_clean=True)
    return Survivor(
        Identity("old", NodeId(1)),
        None,
        "",
        {STATES: find_log(disk, layout.directory_of(STATES))},
        {STATES: TopicPartition("__transaction_state", 0)},
    )


def test_every_kind_of_record_can_be_read_again(disk: SystemDisk, log: PartitionLog, tmp_path: Path) -> None:
    records = [
        (1000, b"key", b"value", (("name", b"text"), ("name", b"\xff"), ("none", None))),
        (1001, None, None, ()),
        (1002, b"\x00\xff", "snow ☃".encode(), ()),
        (1003, b"", b"", ()),
    ]
    append(log, encode_batch(records))
    append(log, encode_batch([(-1, b"undated", b"v", ())], base_offset=log.next_offset))
    dumped(disk, log, tmp_path)
    parse = json_lines((), None)
    read = [parse(line) for line in (tmp_path / "topics/orders/0.jsonl").read_bytes().splitlines()]
    assert read == [
        *(Message(key, value, headers, 0, timestamp) for timestamp, key, value, headers in records),
        Message(b"undated", b"v", (), 0, None),
    ]


def test_records_that_were_deleted_are_not_dumped(disk: SystemDisk, log: PartitionLog, tmp_path: Path) -> None:
    append(log, batch_at(0, count=10))
    done = dumped(disk, log, tmp_path, start_offset=4)
    assert offsets(tmp_path) == list(range(4, 10))
    assert done.records == 6


def test_a_batch_that_nobody_can_open_is_told_and_passed_over(
    disk: SystemDisk, log: PartitionLog, tmp_path: Path
) -> None:
    unreadable = batch_at(0, count=3)
    unreadable[22] |= Codec.ZSTD  # its producer says so, and it is not
    seal(unreadable)
    append(log, unreadable)
    append(log, batch_at(3))
    done = dumped(disk, log, tmp_path)
    assert offsets(tmp_path) == [3]
    assert [(it.first_offset, it.end_offset) for it in done.damaged] == [(0, 3)]


def test_a_file_has_its_name_once_it_is_complete(disk: SystemDisk, log: PartitionLog, tmp_path: Path) -> None:
    append(log, batch_at(0))
    passes: list[int] = []

    def interrupt(count: int) -> None:
        passes.append(count)
        if len(passes) == 2:  # it was looked through, and is being written
            raise KeyboardInterrupt

    log.close(is_clean=True)
    source = Source(NAME, find_log(disk, layout.directory_of(ORDERS)), "topics/orders/0")
    with pytest.raises(KeyboardInterrupt):
        dump_log(disk, source, tmp_path, {}, on_read=interrupt)
    assert [path.name for path in (tmp_path / "topics/orders").iterdir()] == ["0.jsonl.part"]
