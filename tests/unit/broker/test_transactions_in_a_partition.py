"""Transactions as a partition takes, ends and shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.deletion import delete_records
from headrace.broker.partitions.writing import ACKS_ALL
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, NodeId, Offset, ProducerId
from headrace.runtime.disk import SystemDisk
from headrace.storage.settings import LogSettings
from headrace.wire.batches.header import read_header
from headrace.wire.batches.markers import Marker, decode_marker
from headrace.wire.batches.records import encode_batch
from tests.unit.broker.small_partitions import LATEST_EPOCH, NODE, PRODUCE_VERSION, SmallPartition, batch_of
from tests.unit.storage.small_logs import headers_in, new_log, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.broker.partitions.partition import LogReadInfo
    from headrace.broker.partitions.pending_appends import PendingAppend

PRODUCER = ProducerId(7)
OTHER = ProducerId(8)
SETTINGS = LogSettings(
    segment_ms=1 << 60, retention_ms=None
)  # markers are of today, the records of these tests are not


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    yield SmallPartition(new_log(disk, SETTINGS), disk)
    disk.close()


def transactional(
    sequence: int, count: int = 1, *, producer_id: int = PRODUCER, epoch: int = 0, value_bytes: int = 10
) -> bytearray:
    return batch_of(
        count,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        is_transactional=True,
        value_bytes=value_bytes,
    )


def end(
    small: SmallPartition,
    *,
    is_commit: bool,
    producer_id: ProducerId = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 1,
    version: int = 1,
) -> PendingAppend:
    return small.partition.writer.write_marker(
        producer_id,
        epoch,
        is_commit=is_commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def read(
    small: SmallPartition, offset: int = 0, max_bytes: int = 1 << 20, *, is_committed_only: bool = True
) -> tuple[list[int], LogReadInfo]:
    """The base offsets of the batches that come, and everything that comes with them."""
    readable = small.partition.read(
        Offset(offset),
        max_bytes,
        at_least_one=True,
        leader_epoch=LATEST_EPOCH,
        is_committed_only=is_committed_only,
    )
    if readable.records is None:
        return [], readable
    headers = headers_in(readable.records.read())
    readable.records.release()
    return [header.base_offset for header in headers], readable


def refusal_code(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        action()
    return refusal.value.code


class TestOwnAppends:
    def test_are_written_at_once(self, small: SmallPartition) -> None:
        admitted = small.partition.writer.append(batch_of(3))
        assert (admitted.base_offset, admitted.next_offset) == (0, 3)
        assert not admitted.is_settled
        assert small.log.next_offset == 3
        (header,) = read_all(small.log)
        assert (header.base_offset, header.leader_epoch) == (0, 0)
        small.flush()
        assert admitted.is_settled
        assert admitted.refusal is None

    def test_come_after_what_clients_have_staged(self, small: SmallPartition) -> None:
        staged = small.partition.writer.admit(memoryview(batch_of(2)), ACKS_ALL, PRODUCE_VERSION)
        admitted = small.partition.writer.append(batch_of(1))
        assert (staged.base_offset, admitted.base_offset) == (0, 2)
        assert small.log.next_offset == 3
        assert small.counters.messages_in == 2
        later = small.partition.writer.admit(memoryview(batch_of(1)), ACKS_ALL, PRODUCE_VERSION)
        small.stage.commit()
        assert later.base_offset == 3
        assert small.counters.messages_in == 3

    def test_may_belong_to_a_transaction(self, small: SmallPartition) -> None:
        for _ in range(2):
            small.partition.writer.append(transactional(-1, 2))
        small.flush()
        assert small.partition.last_stable_offset == 0
        producer = small.log.producers.get(PRODUCER)
        assert producer is not None
        assert producer.current_txn_first_offset == 0
        end(small, is_commit=True)
        small.flush()
        assert small.partition.last_stable_offset == 5

    def test_are_refused_for_an_epoch_that_is_over(self, small: SmallPartition) -> None:
        end(small, is_commit=False, epoch=4)
        code = refusal_code(lambda: small.partition.writer.append(transactional(-1, epoch=3)))
        assert code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert small.log.next_offset == 1

    def test_can_insist_on_a_grant(self, small: SmallPartition) -> None:
        partition = small.partition
        claim = partition.writer.claim_transaction(PRODUCER, 0)
        assert claim is not None
        code = refusal_code(lambda: partition.writer.append(transactional(-1), needs_grant=True))
        assert code is ErrorCode.INVALID_TXN_STATE
        end(small, is_commit=True)  # the transaction ends before the coordinator's word arrives
        partition.writer.grant_transaction(claim)
        code = refusal_code(lambda: partition.writer.append(transactional(-1), needs_grant=True))
        assert code is ErrorCode.INVALID_TXN_STATE
        claim = partition.writer.claim_transaction(PRODUCER, 0)
        assert claim is not None
        partition.writer.grant_transaction(claim)
        partition.writer.append(transactional(-1), needs_grant=True)
        assert partition.writer.claim_transaction(PRODUCER, 0) is None, "it is open now"

    def test_are_refused_where_another_leads(self, small: SmallPartition) -> None:
        small.partition.replica.resign()
        assert refusal_code(lambda: small.partition.writer.append(batch_of())) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refusal_code(lambda: end(small, is_commit=True)) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_are_refused_while_too_few_replicas_are_in_sync(self, small: SmallPartition) -> None:
        small.partition.replica.set_policy(durability="flushed", min_insync=2)
        small.partition.lead(Epoch(1), [NODE], [NODE, NodeId(NODE + 1)])
        assert refusal_code(lambda: small.partition.writer.append(batch_of())) is ErrorCode.NOT_ENOUGH_REPLICAS

    def test_are_refused_if_they_are_too_large(self, small: SmallPartition) -> None:
        large = encode_batch([(0, b"", bytes(2 << 20), ())])
        assert refusal_code(lambda: small.partition.writer.append(large)) is ErrorCode.MESSAGE_TOO_LARGE


class TestMarkers:
    @pytest.mark.parametrize("is_commit", [True, False])
    def test_are_control_batches(self, small: SmallPartition, is_commit: bool) -> None:
        end(small, is_commit=is_commit, epoch=2, coordinator_epoch=5)
        piece = small.log.read(0, 1000, 1, at_least_one=True)
        assert piece is not None
        batch = piece.read()
        piece.release()
        header = read_header(batch)
        assert header.is_control
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
        assert decode_marker(batch) == Marker(is_commit, 5)

    def test_come_after_what_clients_have_staged(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        small.partition.writer.admit(memoryview(transactional(1)), ACKS_ALL, PRODUCE_VERSION)
        assert end(small, is_commit=True).base_offset == 2

    def test_that_come_too_late_are_not_written(self, small: SmallPartition) -> None:
        small.send(transactional(0, epoch=3))
        end(small, is_commit=True, epoch=4, coordinator_epoch=6, version=2)
        small.send(transactional(0, epoch=4))
        written = small.log.next_offset
        late = lambda: end(small, is_commit=True, epoch=4, coordinator_epoch=6, version=2)  # noqa: E731
        assert refusal_code(late) is ErrorCode.INVALID_PRODUCER_EPOCH
        old = lambda: end(small, is_commit=True, epoch=5, coordinator_epoch=5, version=2)  # noqa: E731
        assert refusal_code(old) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert small.log.next_offset == written


class TestAdmission:
    def test_a_first_batch_needs_a_grant(self, small: SmallPartition) -> None:
        batch = memoryview(transactional(0))
        admit = lambda: small.partition.writer.admit(batch, ACKS_ALL, PRODUCE_VERSION)  # noqa: E731
        assert refusal_code(admit) is ErrorCode.INVALID_TXN_STATE
        claim = small.partition.writer.wants_grant(batch)
        assert claim is not None
        small.partition.writer.grant_transaction(claim)
        assert small.partition.writer.wants_grant(batch) is None
        assert admit().base_offset == 0
        small.stage.commit()

    def test_a_marker_uses_the_grant_up(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        assert small.partition.writer.wants_grant(memoryview(transactional(1))) is None
        end(small, is_commit=True)
        assert small.partition.writer.wants_grant(memoryview(transactional(1))) is not None

    def test_a_new_leadership_knows_no_grants(self, small: SmallPartition) -> None:
        batch = memoryview(transactional(0))
        claim = small.partition.writer.wants_grant(batch)
        assert claim is not None
        small.partition.writer.grant_transaction(claim)
        small.partition.lead(Epoch(1), [NODE], [NODE])
        assert small.partition.writer.wants_grant(batch) is not None

    @pytest.mark.parametrize(
        "batch",
        [
            pytest.param(batch_of(), id="plain"),
            pytest.param(batch_of(producer_id=7, epoch=0, sequence=0), id="idempotent"),
            pytest.param(transactional(0)[:60], id="too short"),
            pytest.param(b"", id="empty"),
        ],
    )
    def test_other_batches_need_none(self, small: SmallPartition, batch: bytes) -> None:
        assert small.partition.writer.wants_grant(memoryview(batch)) is None

    def test_a_batch_outside_of_an_open_transaction_is_refused(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        outside = batch_of(producer_id=7, epoch=0, sequence=1)
        assert refusal_code(lambda: small.send(outside)) is ErrorCode.INVALID_TXN_STATE

    def test_clients_write_no_markers(self, small: SmallPartition) -> None:
        forged = encode_batch(
            [(0, b"\0\0\0\1", bytes(6), ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
            is_control=True,
        )
        assert refusal_code(lambda: small.send(forged)) is ErrorCode.INVALID_RECORD

    def test_an_epoch_that_a_marker_began_starts_at_sequence_0(self, small: SmallPartition) -> None:
        small.send(transactional(0, 5))
        end(small, is_commit=True, epoch=1, version=2)
        assert refusal_code(lambda: small.send(transactional(5))) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert small.send(transactional(0, epoch=1)).base_offset == 6


class TestReading:
    def test_an_open_transaction_hides_what_follows_it(self, small: SmallPartition) -> None:
        small.send(batch_of())
        small.send(transactional(0))
        small.send(batch_of())
        small.flush()
        offsets, readable = read(small)
        assert offsets == [0]
        assert (readable.high_watermark, readable.last_stable_offset) == (3, 1)
        assert read(small, is_committed_only=False)[0] == [0, 1, 2]
        assert read(small, 1)[0] == []
        assert read(small, 2)[0] == []

    def test_a_commit_shows_it_once_the_marker_is_safe(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        small.flush()
        end(small, is_commit=True)
        assert small.partition.last_stable_offset == 0
        small.flush()
        offsets, readable = read(small)
        assert offsets == [0, 1]
        assert readable.aborted == []

    def test_an_abort_names_it(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        small.send(batch_of())
        end(small, is_commit=False)
        small.flush()
        offsets, readable = read(small)
        assert offsets == [0, 1, 2]
        assert [(item.producer_id, item.first_offset) for item in readable.aborted] == [(7, 0)]

    def test_only_those_of_the_range_are_named(self, small: SmallPartition) -> None:
        for number in range(6):
            small.send(transactional(number, value_bytes=200))
            end(small, is_commit=False)
        small.flush()
        offsets, readable = read(small, 4, 400)
        assert offsets == [4, 5]
        assert [item.first_offset for item in readable.aborted] == [4]

    def test_whoever_reads_everything_is_told_nothing(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        end(small, is_commit=False)
        small.flush()
        offsets, readable = read(small, is_committed_only=False)
        assert offsets == [0, 1]
        assert readable.aborted == ()

    def test_the_oldest_open_transaction_counts(self, small: SmallPartition) -> None:
        small.send(transactional(0))
        small.send(transactional(0, producer_id=OTHER))
        end(small, is_commit=True, producer_id=OTHER)
        small.flush()
        assert small.partition.last_stable_offset == 0
        end(small, is_commit=True)
        small.flush()
        assert small.partition.last_stable_offset == 4

    def test_deleting_records_moves_what_is_stable_along(self, small: SmallPartition) -> None:
        small.send(transactional(0, 3))
        small.flush()
        delete_records(small.partition, Offset(2))
        assert small.partition.last_stable_offset == 2
        delete_records(small.partition, Offset(3))
        assert small.partition.last_stable_offset == 3
