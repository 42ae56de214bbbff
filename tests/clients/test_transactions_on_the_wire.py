"""Transactions seen frame by frame: both flows, what arrives late, and Kafka's own words for every refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.batches.header import read_header
from headrace.wire.batches.records import decode_records
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.clients.nodes import new_name
from tests.clients.raw_connection import PLENTY, RawConnection, batch_of, by_topic, values_in
from tests.clients.raw_transactions import (
    GROUP_KIND,
    NEW_END,
    NEW_OFFSETS,
    NEW_PRODUCE,
    OLD_END,
    OLD_OFFSETS,
    OLD_PRODUCE,
    RawProducer,
    batches_in,
    fetch_all,
    fetch_offset,
    find_coordinator,
    insist,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

READ_COMMITTED = 1
LONGEST_MS = 900_000
both_flows = pytest.mark.parametrize("end_version", [OLD_END, NEW_END], ids=["older flow", "newer flow"])


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def producer(connection: RawConnection) -> RawProducer:
    return RawProducer(connection, new_name("tx")).init()


@pytest.fixture
def group(connection: RawConnection) -> str:
    name = new_name("group")
    find_coordinator(connection, name, GROUP_KIND)
    return name


def markers_and_values(connection: RawConnection, topic: str) -> tuple[int, list[bytes | None]]:
    """How many markers and which records readers of committed records get; those of aborted transactions among them."""
    pieces = fetch_all(connection, topic, isolation_level=READ_COMMITTED)
    batches = [batch for piece in pieces for batch in batches_in(piece)]
    markers = [batch for batch in batches if read_header(batch).is_control]
    records = [
        record.value
        for batch in batches
        if batch not in markers
        for record in decode_records(batch, inflate_max=PLENTY)
    ]
    return len(markers), records


# ---- the two flows


def test_the_node_says_that_it_knows_the_newer_flow(connection: RawConnection) -> None:
    answer = connection.ask(ApiVersionsRequest("test", "1"))
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels["transaction.version"] == 2


def test_the_older_flow(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    before = (producer.producer_id, producer.producer_epoch)
    for value in (b"1", b"2"):
        assert producer.add_partitions(topic) == ErrorCode.NONE
        assert producer.produce(topic, value, version=OLD_PRODUCE) == ErrorCode.NONE
        producer.end_well(commit=True, version=OLD_END)
    assert (producer.producer_id, producer.producer_epoch) == before
    assert markers_and_values(connection, topic) == (2, [b"1", b"2"])


def test_the_newer_flow_needs_no_adding_and_gives_a_new_epoch(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    for epoch, value in enumerate((b"1", b"2", b"3")):
        assert producer.producer_epoch == epoch
        assert producer.produce(topic, value) == ErrorCode.NONE
        producer.end_well(commit=True)
    assert markers_and_values(connection, topic) == (3, [b"1", b"2", b"3"])


def test_an_id_may_change_between_the_flows(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    for number, is_old in enumerate((True, False, True, True, False)):
        if is_old:
            assert producer.add_partitions(topic) == ErrorCode.NONE
        version = OLD_PRODUCE if is_old else NEW_PRODUCE
        assert producer.produce(topic, b"%d" % number, version=version) == ErrorCode.NONE
        producer.end_well(commit=True, version=OLD_END if is_old else NEW_END)
    assert markers_and_values(connection, topic) == (5, [b"%d" % number for number in range(5)])


def test_aborted_transactions_are_listed_for_those_who_read_committed_records(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    identities = []
    for is_commit in (False, True, False):
        identities.append(producer.producer_id)
        assert producer.produce(topic, b"1", b"2") == ErrorCode.NONE
        producer.end_well(commit=is_commit)
    strict = fetch_all(connection, topic, isolation_level=READ_COMMITTED)
    listed = {(one.producer_id, one.first_offset) for piece in strict for one in piece.aborted_transactions or ()}
    assert listed == {(identities[0], 0), (identities[2], 6)}
    assert strict[-1].last_stable_offset == strict[-1].high_watermark == 9
    assert not any(piece.aborted_transactions for piece in fetch_all(connection, topic))


def test_an_open_transaction_ends_what_is_stable(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    connection.produce(topic, batch_of(b"before"))
    assert producer.produce(topic, b"open") == ErrorCode.NONE
    connection.produce(topic, batch_of(b"after"))
    part = by_topic(connection.fetch(topic, 0, isolation_level=READ_COMMITTED))[topic]
    assert (part.last_stable_offset, part.high_watermark) == (1, 3)
    assert values_in(part) == [b"before"]
    producer.end_well(commit=True)
    assert by_topic(connection.fetch(topic, 0))[topic].last_stable_offset == 4


# ---- what comes late


def test_a_late_end_does_not_touch_the_next_transaction(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    late = RawProducer(connection, producer.transactional_id)
    late.producer_id, late.producer_epoch = producer.producer_id, producer.producer_epoch
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    producer.end_well(commit=True)
    assert producer.produce(topic, b"2") == ErrorCode.NONE
    for is_commit in (False, True):
        assert late.end(commit=is_commit).error_code == ErrorCode.PRODUCER_FENCED
    producer.end_well(commit=True)
    assert markers_and_values(connection, topic) == (2, [b"1", b"2"])


def test_an_end_that_is_sent_twice_is_answered_twice_and_done_once(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    again = RawProducer(connection, producer.transactional_id)
    again.producer_id, again.producer_epoch = producer.producer_id, producer.producer_epoch
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    producer.end_well(commit=True)
    answer = again.end(commit=True)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert markers_and_values(connection, topic) == (1, [b"1"])


@pytest.mark.parametrize("is_next_open", [False, True])
def test_a_late_batch_does_not_get_into_the_next_transaction(
    connection: RawConnection, producer: RawProducer, topic: str, is_next_open: bool
) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    late = producer.batch(b"late", sequence=1)
    producer.end_well(commit=True)
    if is_next_open:
        assert producer.produce(topic, b"2") == ErrorCode.NONE
    assert producer.produce_batch(topic, late) == ErrorCode.INVALID_PRODUCER_EPOCH
    if is_next_open:
        producer.end_well(commit=True)
    expected = [b"1", b"2"] if is_next_open else [b"1"]
    assert markers_and_values(connection, topic) == (len(expected), expected)


def test_a_late_batch_does_not_open_a_transaction_where_none_was(
    connection: RawConnection, producer: RawProducer, node: NodeProcess
) -> None:
    """In a partition that knows nothing of the producer yet, only the coordinator can tell."""
    topic = node.create_topic(new_name(), partitions=2)
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    late = producer.batch(b"late", sequence=0)
    producer.end_well(commit=True)
    assert producer.produce_batch(topic, late, partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_outside_of_the_open_transaction_is_refused(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    outside = batch_of(
        b"outside", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=1
    )
    assert connection.produce(topic, outside).error_code == ErrorCode.INVALID_TXN_STATE


# ---- refusals in Kafka's words


@both_flows
def test_a_transactional_id_that_nobody_holds(connection: RawConnection, topic: str, end_version: int) -> None:
    stranger = RawProducer(connection, new_name("tx"))
    RawProducer(connection, new_name("tx")).init()  # so that there are coordinators
    stranger.producer_id, stranger.producer_epoch = 77, 0
    assert stranger.add_partitions(topic) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stranger.add_offsets("group") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stranger.produce(topic, b"1") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stranger.end(commit=True, version=end_version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@both_flows
def test_a_producer_id_that_is_another_ones(producer: RawProducer, topic: str, end_version: int) -> None:
    producer.producer_id += 1_000_000
    assert producer.add_partitions(topic) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.produce(topic, b"1") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.end(commit=True, version=end_version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_epoch_that_is_over(producer: RawProducer, topic: str, group: str) -> None:
    RawProducer(producer.connection, producer.transactional_id).init()
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add_partitions(topic) == fenced
    assert producer.add_partitions(topic, version=1) == invalid  # which clients of that version know
    assert producer.add_offsets(group) == fenced
    assert producer.add_offsets(group, version=1) == invalid
    assert producer.produce(topic, b"1") == invalid
    assert producer.produce(topic, b"1", version=OLD_PRODUCE) == invalid
    for version, code in ((NEW_END, fenced), (OLD_END, fenced), (1, invalid)):
        assert producer.end(commit=True, version=version).error_code == code
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    assert producer.try_init(**known).error_code == fenced
    assert producer.try_init(version=3, **known).error_code == invalid
    assert producer.commit_offset(group, topic, 1) == invalid
    assert producer.commit_offset(group, topic, 1, version=OLD_OFFSETS) == invalid


@both_flows
def test_a_commit_without_a_beginning(producer: RawProducer, end_version: int) -> None:
    assert producer.end(commit=True, version=end_version).error_code == ErrorCode.INVALID_TXN_STATE


def test_an_abort_without_a_beginning(producer: RawProducer) -> None:
    """By the newer flow a client cannot know whether its first batch got there; so it may abort what is not there."""
    assert producer.end(commit=False, version=OLD_END).error_code == ErrorCode.INVALID_TXN_STATE
    epoch = producer.producer_epoch
    producer.end_well(commit=False, version=NEW_END)
    assert producer.producer_epoch == epoch + 1


def test_a_commit_after_an_abort(producer: RawProducer, topic: str) -> None:
    assert producer.add_partitions(topic) == ErrorCode.NONE
    producer.end_well(commit=False, version=OLD_END)
    assert producer.end(commit=False, version=OLD_END).error_code == ErrorCode.NONE  # the same once more
    assert producer.end(commit=True, version=OLD_END).error_code == ErrorCode.INVALID_TXN_STATE


def test_an_abort_after_a_commit(producer: RawProducer, topic: str) -> None:
    assert producer.add_partitions(topic) == ErrorCode.NONE
    producer.end_well(commit=True, version=OLD_END)
    assert producer.end(commit=False, version=OLD_END).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_partition_that_the_older_flow_has_not_added(producer: RawProducer, node: NodeProcess) -> None:
    topic = node.create_topic(new_name(), partitions=2)
    assert producer.add_partitions(topic, 0) == ErrorCode.NONE
    assert producer.produce(topic, b"1", partition=1, version=OLD_PRODUCE) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.produce(topic, b"1", partition=1, version=10) == ErrorCode.INVALID_TXN_STATE
    assert producer.produce(topic, b"1", partition=0, version=10) == ErrorCode.NONE


def test_a_partition_that_does_not_exist(producer: RawProducer, topic: str) -> None:
    assert producer.add_partitions(topic, 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add_partitions(new_name("missing")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("timeout_ms", [LONGEST_MS + 1, 0, -1])
def test_a_time_limit_that_is_not_allowed(producer: RawProducer, timeout_ms: int) -> None:
    producer.timeout_ms = timeout_ms
    assert producer.try_init().error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    producer.timeout_ms = LONGEST_MS
    assert producer.try_init().error_code == ErrorCode.NONE


def test_whoever_comes_while_a_transaction_ends_comes_again(producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    successor = RawProducer(producer.connection, producer.transactional_id)
    assert successor.try_init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    successor.adopt(insist(successor.try_init))
    assert successor.producer_id == producer.producer_id
    assert successor.producer_epoch == producer.producer_epoch + 2  # the abort's, and its own
    assert producer.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED


def test_the_holder_may_ask_for_a_new_epoch(producer: RawProducer, topic: str) -> None:
    """As clients do after an error that they cannot place (KIP-360)."""
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    first = producer.try_init(**known)
    assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, producer.producer_epoch + 1)
    repeated = producer.try_init(**known)  # its answer was lost
    assert (repeated.error_code, repeated.producer_epoch) == (ErrorCode.NONE, first.producer_epoch)
    producer.adopt(first)
    assert producer.produce(topic, b"1") == ErrorCode.NONE


def test_partitions_of_several_transactions_are_verified_at_once(producer: RawProducer, topic: str) -> None:
    """As nodes ask each other, from version 4 on."""
    assert producer.add_partitions(topic) == ErrorCode.NONE
    idle = RawProducer(producer.connection, new_name("tx")).init()
    wanted = [
        AddPartitionsToTxnTransaction(
            one.transactional_id, one.producer_id, one.producer_epoch, True, [AddPartitionsToTxnTopic(topic, [0])]
        )
        for one in (producer, idle)
    ]
    answer = producer.connection.ask(AddPartitionsToTxnRequest(wanted))
    codes = {
        result.transactional_id: result.topic_results[0].results_by_partition[0].partition_error_code
        for result in answer.results_by_transaction
    }
    assert codes == {
        producer.transactional_id: ErrorCode.NONE,
        idle.transactional_id: ErrorCode.TRANSACTION_ABORTABLE,
    }


# ---- offsets


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_wait_for_the_end_of_their_transaction(
    connection: RawConnection, producer: RawProducer, topic: str, group: str, is_commit: bool
) -> None:
    assert producer.commit_offset(group, topic, 5, version=NEW_OFFSETS) == ErrorCode.NONE
    assert fetch_offset(connection, group, topic).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetch_offset(connection, group, topic, require_stable=False).committed_offset == -1
    producer.end_well(commit=is_commit)
    found = fetch_offset(connection, group, topic)
    assert (found.error_code, found.committed_offset) == (ErrorCode.NONE, 5 if is_commit else -1)


def test_offsets_by_the_older_flow(connection: RawConnection, producer: RawProducer, topic: str, group: str) -> None:
    assert producer.commit_offset(group, topic, 5, version=OLD_OFFSETS) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset(group, topic, 5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.add_offsets(group) == ErrorCode.NONE
    assert producer.commit_offset(group, topic, 6, version=OLD_OFFSETS) == ErrorCode.NONE
    producer.end_well(commit=True, version=OLD_END)
    assert fetch_offset(connection, group, topic).committed_offset == 6


def test_offsets_of_a_member_that_is_none(producer: RawProducer, topic: str, group: str) -> None:
    ghost = {"generation_id": 3, "member_id": "ghost"}
    assert producer.commit_offset(group, topic, 5, **ghost) == ErrorCode.ILLEGAL_GENERATION
