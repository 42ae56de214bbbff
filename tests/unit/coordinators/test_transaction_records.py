"""What stands in `__transaction_state`, byte for byte as Kafka writes it."""

from __future__ import annotations

import pytest

from headrace.coordinators.records import TRANSACTION_KINDS, UnreadableRecord, decode, encode
from headrace.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.coordinators.transactions.state import Status, Transaction, record_of, transaction_of
from headrace.model.names import Millis, ProducerId, TopicPartition
from headrace.wire.messages.transaction_records import TransactionLogValue
from tests.unit.coordinators.transactions_at_work import A0, A1, B0

KEY = bytes.fromhex("0000 0003") + b"app"

IDLE = Transaction(ProducerId(4_000), 5, 60_000, Status.EMPTY, Millis(1_700_000_000_000))
IDLE_BYTES = bytes.fromhex(
    "0001"  # version of the value
    "0000000000000fa0 0005"  # producer id and epoch
    "0000ea60 00"  # timeout and status
    "00"  # no list of partitions
    "0000018bcfe56800"  # last update
    "ffffffffffffffff"  # not begun
    "00"  # nothing tagged
)

ENDING = Transaction(
    producer_id=ProducerId(4_000),
    producer_epoch=32_767,
    timeout_ms=60_000,
    status=Status.PREPARE_COMMIT,
    updated_ms=Millis(1_700_000_000_001),
    previous_producer_id=ProducerId(4_000),
    next_producer_id=ProducerId(4_001),
    partitions=frozenset({A1, A0, B0}),
    started_ms=Millis(1_700_000_000_000),
    transaction_version=2,
)
ENDING_BYTES = bytes.fromhex(
    "0001"
    "0000000000000fa0 7fff"
    "0000ea60 02"
    "03"  # two topics
    "02 61 03 00000000 00000001 00"  # a: 0, 1
    "02 62 02 00000000 00"  # b: 0
    "0000018bcfe56801"
    "0000018bcfe56800"
    "03"  # three tagged fields
    "00 08 0000000000000fa0"  # the producer id before
    "01 08 0000000000000fa1"  # the one to come
    "02 02 0002"  # the client's transaction version
)


@pytest.mark.parametrize(("transaction", "written"), [(IDLE, IDLE_BYTES), (ENDING, ENDING_BYTES)])
def test_a_transaction_and_its_bytes(transaction: Transaction, written: bytes) -> None:
    assert encode(record_of("app", transaction)) == (KEY, written)
    record = decode(TRANSACTION_KINDS, KEY, written)
    assert record.key.transactional_id == "app"
    assert transaction_of(record.value) == transaction


def test_a_transaction_that_has_ended_has_an_empty_list_rather_than_none() -> None:
    value = record_of("app", ENDING.ended(Millis(5))).value
    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions == []
    assert (value.producer_id, value.producer_epoch, value.previous_producer_id) == (4_001, 0, 4_000)


def test_records_of_kafkas_first_format_are_read() -> None:
    first_format = bytes.fromhex(
        "0000 0000000000000fa0 0005 0000ea60 0100000001 0001 61 00000001 000000010000018bcfe56801 0000018bcfe56800"
    )
    transaction = transaction_of(decode(TRANSACTION_KINDS, KEY, first_format).value)
    assert (transaction.status, transaction.partitions) == (Status.ONGOING, {TopicPartition("a", 1)})
    assert (transaction.previous_identity, transaction.transaction_version) == (None, 0)


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_status_that_does_not_belong_into_a_log_stops_the_loading(status: int) -> None:
    record = record_of("app", IDLE)
    assert record.value is not None
    record.value.transaction_status = status
    with pytest.raises(UnreadableRecord, match="status"):
        TransactionCoordinator(TransactionSettings(), 0).apply(record)


def test_a_record_inside_a_transaction_stops_the_loading() -> None:
    with pytest.raises(UnreadableRecord, match="inside one"):
        TransactionCoordinator(TransactionSettings(), 0).apply(record_of("app", IDLE), ProducerId(4_000))


def test_statuses_are_named_as_kafkas_tools_name_them() -> None:
    assert [status.text for status in Status] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
