"""A node goes down with transactions open, decided, and half told: after its start all of them end as they should.

Each test needs one crash only, so it lets all its cases go through the same one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, product
from typing import TYPE_CHECKING

import pytest

from headrace.metadata.configs.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.errors import ErrorCode
from headrace.storage.files.layout import LOG, NAME, TOPICS
from headrace.wire.batches.header import read_header
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.partitioning import partition_for_coordinated
from tests.clients.raw_connection import RawConnection
from tests.clients.raw_transactions import (
    GROUP_KIND,
    NEW_END,
    NEW_PRODUCE,
    OLD_END,
    OLD_PRODUCE,
    RawProducer,
    batches_in,
    describe,
    fetch_all,
    fetch_offset,
    find_coordinator,
    insist,
    wait_for_state,
)
from tests.faults.load import create_topics
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from headrace.wire.batches.header import BatchHeader

PARTITIONS = 3  # of each case's topic
COORDINATORS = 24  # partitions of each internal topic: enough that every case has a log of its own
CONFIGS = {
    "offsets.topic.num.partitions": str(COORDINATORS),
    "transaction.state.log.num.partitions": str(COORDINATORS),
}
COMMITTED = 1
LONG_MS, SHORT_MS = 600_000, 300
OFFSET = 7


@dataclass
class Case:
    """A transaction with a record in each partition of its topic, and an offset of its group. All go by one name."""

    name: str
    is_newer: bool
    is_commit: bool
    marked: int = 0
    """How many partitions have got their marker before the crash."""
    timeout_ms: int = LONG_MS
    producer: RawProducer | None = None

    def open(self, connection: RawConnection) -> RawProducer:
        find_coordinator(connection, self.name, GROUP_KIND)
        self.producer = producer = RawProducer(connection, self.name, self.timeout_ms).init()
        if not self.is_newer:
            assert producer.add_partitions(self.name, *range(PARTITIONS)) == ErrorCode.NONE
        self.write(producer, b"first", range(PARTITIONS))
        assert producer.commit_offset(self.name, self.name, OFFSET) == ErrorCode.NONE
        return producer

    def again(self, connection: RawConnection) -> RawProducer:
        """The same producer, over a new connection."""
        assert self.producer is not None
        find_coordinator(connection, self.name, GROUP_KIND)
        self.producer.connection = connection
        return self.producer

    def write(self, producer: RawProducer, value: bytes, partitions: Iterable[int]) -> None:
        version = NEW_PRODUCE if self.is_newer else OLD_PRODUCE
        for partition in partitions:
            assert producer.produce(self.name, value, partition=partition, version=version) == ErrorCode.NONE

    @property
    def end_version(self) -> int:
        return NEW_END if self.is_newer else OLD_END

    def check_ended(self, connection: RawConnection, record_count: int = 1) -> None:
        """Nothing holds readers back any more, and they see all or nothing."""
        wait_for_state(connection, self.name, "CompleteCommit" if self.is_commit else "CompleteAbort")
        for partition in range(PARTITIONS):
            pieces = fetch_all(connection, self.name, partition, isolation_level=COMMITTED)
            headers = [read_header(batch) for piece in pieces for batch in batches_in(piece)]
            assert pieces[-1].last_stable_offset == pieces[-1].high_watermark == headers[-1].next_offset
            assert sum(header.record_count for header in headers if not header.is_control) == record_count
            assert headers[-1].is_control
            aborted = {one.first_offset for piece in pieces for one in piece.aborted_transactions or ()}
            assert aborted == (set() if self.is_commit else {0})
        found = fetch_offset(connection, self.name, self.name)
        assert (found.error_code, found.committed_offset) == (ErrorCode.NONE, OFFSET if self.is_commit else -1)

    def check_goes_on(self, producer: RawProducer) -> None:
        """The id is as good as before: the next transaction gets through."""
        if not self.is_newer:
            assert producer.add_partitions(self.name, 0) == ErrorCode.NONE
        self.write(producer, b"next", [0])
        producer.end_well(commit=True, version=self.end_version)


def all_cases(marked: Sequence[int] = (0,)) -> list[Case]:
    choices = list(product((False, True), (False, True), marked))
    return [Case(name, *choice) for name, choice in zip(names(len(choices)), choices, strict=True)]


def names(wanted: int) -> list[str]:
    """Names that are kept in different partitions of the internal topics."""
    found: dict[int, str] = {}
    for number in count():
        if len(found) == wanted:
            break
        name = f"case-{number}"
        found.setdefault(partition_for_coordinated(name, COORDINATORS), name)
    return list(found.values())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data", tmp_path / "node.log", configs=CONFIGS) as started:
        yield started.start()


@contextmanager
def opened(node: NodeProcess, cases: Sequence[Case]) -> Iterator[RawConnection]:
    create_topics(node.bootstrap, {case.name: (PARTITIONS, {}) for case in cases})
    with RawConnection(node.bootstrap) as connection:
        for case in cases:
            case.open(connection)
        yield connection


def restart(node: NodeProcess) -> RawConnection:
    node.kill()
    node.start()
    return RawConnection(node.bootstrap)


def test_an_open_transaction_goes_on(node: NodeProcess) -> None:
    cases = all_cases()
    with opened(node, cases):
        pass
    with restart(node) as connection:
        for case in cases:
            producer = case.again(connection)
            assert insist(lambda name=case.name: describe(connection, name)).transaction_state == "Ongoing"
            assert not fetch_all(connection, case.name, isolation_level=COMMITTED)
            assert fetch_offset(connection, case.name, case.name).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            case.write(producer, b"second", range(PARTITIONS))
            producer.end_well(commit=case.is_commit, version=case.end_version)
            case.check_ended(connection, record_count=2)


def test_what_nobody_goes_on_with_is_aborted(node: NodeProcess) -> None:
    """One that is beyond its time, and one whose id another takes over."""
    late, left = (Case(name, is_newer=True, is_commit=False) for name in names(2))
    late.timeout_ms = SHORT_MS
    with opened(node, [late, left]):
        pass
    with restart(node) as connection:
        fenced = late.again(connection)
        late.check_ended(connection)
        assert fenced.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED
        fenced = left.again(connection)
        successor = RawProducer(connection, left.name).init()
        assert fetch_offset(connection, left.name, left.name).committed_offset == -1
        assert fenced.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED
        left.check_goes_on(successor)


def test_a_decision_that_was_answered_is_carried_out(node: NodeProcess) -> None:
    """Killed with the last answer still warm: wherever the markers were, they get there."""
    cases = all_cases()
    with opened(node, cases):
        for case in cases:
            assert case.producer is not None
            answer = case.producer.end(commit=case.is_commit, version=case.end_version)
            assert answer.error_code == ErrorCode.NONE
            if case.is_newer:
                case.producer.adopt(answer)
    with restart(node) as connection:
        for case in cases:
            producer = case.again(connection)
            case.check_ended(connection)
            case.check_goes_on(producer)


def test_markers_that_are_missing_are_written(node: NodeProcess) -> None:
    """The state that a crash leaves between two markers, made by hand: the rest of them is cut off."""
    cases = all_cases(marked=(0, 1, PARTITIONS))
    with opened(node, cases):
        for case in cases:
            assert case.producer is not None
            case.producer.end_well(commit=case.is_commit, version=case.end_version)
    node.kill()
    for case in cases:
        place = partition_for_coordinated(case.name, COORDINATORS)
        assert not cut_last_batch(node, TRANSACTION_STATE, place).is_control  # that all is complete
        for partition in range(case.marked, PARTITIONS):
            assert cut_last_batch(node, case.name, partition).is_control
        if not case.marked:
            assert cut_last_batch(node, CONSUMER_OFFSETS, place).is_control
    node.start()
    with RawConnection(node.bootstrap) as connection:
        for case in cases:
            producer = case.again(connection)
            case.check_ended(connection)
            case.check_goes_on(producer)


def cut_last_batch(node: NodeProcess, topic: str, partition: int) -> BatchHeader:
    """Take the last batch off a log, as if it had never been written; its header."""
    (directory,) = (
        path.parent
        for path in node.data_dir.glob(f"{TOPICS}/*/{NAME}")
        if path.read_text() == f"topic: {topic}\npartition: {partition}\n"
    )
    path = max(directory.glob(f"*{LOG}"))
    content = path.read_bytes()
    position = 0
    while (header := read_header(content, position)).size < len(content) - position:
        position += header.size
    with path.open("r+b") as log:
        log.truncate(position)
    return header


def test_a_transaction_ends_even_if_its_topic_is_gone(node: NodeProcess) -> None:
    (case,) = (Case(name, is_newer=True, is_commit=True) for name in names(1))
    with opened(node, [case]) as connection:
        assert case.producer is not None
        deleted = connection.ask(DeleteTopicsRequest([DeleteTopicState(case.name)], timeout_ms=30_000))
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert case.producer.end(commit=True).error_code == ErrorCode.NONE
    with restart(node) as connection:
        wait_for_state(connection, case.name, "CompleteCommit")
