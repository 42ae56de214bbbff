"""What operators see of transactions, and the markers that they may write by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient

from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.clients.nodes import new_name
from tests.clients.raw_connection import RawConnection, by_topic
from tests.clients.raw_transactions import (
    NEW_END,
    OLD_END,
    OLD_PRODUCE,
    TIMEOUT_MS,
    RawProducer,
    describe,
    wait_for_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.wire.messages.describe_producers import ProducerState
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

ANY_COORDINATOR = 0  # its epoch, in markers by hand


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def producer(connection: RawConnection) -> RawProducer:
    return RawProducer(connection, new_name("tx")).init()


def test_a_transaction_is_described_on_its_way(producer: RawProducer, node: NodeProcess) -> None:
    topics = sorted(node.create_topic(new_name(), partitions=3) for _ in range(2))

    def look() -> tuple[str, int, dict[str, list[int]]]:
        found = describe(producer.connection, producer.transactional_id)
        assert (found.error_code, found.producer_id) == (ErrorCode.NONE, producer.producer_id)
        assert found.transaction_timeout_ms == TIMEOUT_MS
        return (
            found.transaction_state,
            found.producer_epoch,
            {topic.topic: sorted(topic.partitions) for topic in found.topics},
        )

    assert look() == ("Empty", 0, {})
    assert producer.produce(topics[0], b"1", partition=2) == ErrorCode.NONE
    assert producer.produce(topics[1], b"1", partition=0) == ErrorCode.NONE
    assert producer.produce(topics[1], b"1", partition=1) == ErrorCode.NONE
    assert look() == ("Ongoing", 0, {topics[0]: [2], topics[1]: [0, 1]})
    producer.end_well(commit=True)
    assert look() == ("CompleteCommit", 1, {})
    assert producer.produce(topics[0], b"1") == ErrorCode.NONE
    producer.end_well(commit=False)
    assert look() == ("CompleteAbort", 2, {})


def test_an_id_that_nobody_holds_is_not_found(connection: RawConnection, producer: RawProducer) -> None:
    found = describe(connection, new_name("nobody"))
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_what_one_asks_for(connection: RawConnection, topic: str) -> None:
    name = new_name("listed")
    idle, busy = RawProducer(connection, f"{name}-idle").init(), RawProducer(connection, f"{name}-busy").init()
    assert busy.produce(topic, b"1") == ErrorCode.NONE

    def listed(**filters: object) -> dict[str, str]:
        answer = connection.ask(ListTransactionsRequest(**filters))  # type: ignore[arg-type]
        assert answer.error_code == ErrorCode.NONE
        return {
            one.transactional_id: one.transaction_state
            for one in answer.transaction_states
            if one.transactional_id.startswith(name)
        }

    both = {idle.transactional_id: "Empty", busy.transactional_id: "Ongoing"}
    assert listed() == both
    assert listed(transactional_id_pattern=f"{name}.*") == both
    assert listed(state_filters=["Ongoing"]) == {busy.transactional_id: "Ongoing"}
    assert listed(producer_id_filters=[idle.producer_id]) == {idle.transactional_id: "Empty"}
    assert busy.transactional_id not in listed(duration_filter=3_600_000)
    assert connection.ask(ListTransactionsRequest(["Nonsense"])).unknown_state_filters == ["Nonsense"]
    busy.end_well(commit=False)


def producers_of(connection: RawConnection, topic: str) -> dict[int, ProducerState]:
    (found,) = connection.ask(DescribeProducersRequest([TopicRequest(topic, [0])])).topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    return {state.producer_id: state for state in found.active_producers}


def test_a_partition_names_its_producers_and_their_open_transactions(
    connection: RawConnection, producer: RawProducer, topic: str
) -> None:
    assert producer.produce(topic, b"1", b"2") == ErrorCode.NONE
    state = producers_of(connection, topic)[producer.producer_id]
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (0, 1, 0)
    producer.end_well(commit=True)
    state = producers_of(connection, topic)[producer.producer_id]
    assert (state.producer_epoch, state.current_txn_start_offset) == (1, -1)


def test_producers_of_a_partition_that_does_not_exist(connection: RawConnection) -> None:
    request = DescribeProducersRequest([TopicRequest(new_name("missing"), [0])])
    (found,) = connection.ask(request).topics[0].partitions
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- markers by hand


def write_marker(producer: RawProducer, topic: str, *, commit: bool, epoch: int, version: int = 1) -> ErrorCode:
    marker = WritableTxnMarker(
        producer.producer_id, epoch, commit, [WritableTxnMarkerTopic(topic, [0])], ANY_COORDINATOR
    )
    answer = producer.connection.ask(WriteTxnMarkersRequest([marker]), version)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def test_a_marker_by_hand_frees_a_partition(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    """As `kafka-transactions abort` does for a transaction that hangs."""
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    assert write_marker(producer, topic, commit=False, epoch=producer.producer_epoch) == ErrorCode.NONE
    part = by_topic(connection.fetch(topic, 0, isolation_level=1))[topic]
    assert part.last_stable_offset == part.high_watermark == 2


def test_a_marker_of_an_old_epoch_is_refused(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    producer.end_well(commit=True)
    assert producer.produce(topic, b"2") == ErrorCode.NONE
    late = write_marker(producer, topic, commit=False, epoch=producer.producer_epoch - 1)
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.end_well(commit=True)


def test_a_marker_for_a_topic_that_does_not_exist(producer: RawProducer) -> None:
    code = write_marker(producer, new_name("missing"), commit=True, epoch=0)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- with a client's tools


def test_kafka_pythons_tools_look_at_transactions(node: NodeProcess, producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    try:
        found = admin.describe_transactions([producer.transactional_id])[producer.transactional_id]
        assert (str(found.state.value), found.producer_id) == ("Ongoing", producer.producer_id)
        listed = {one.transactional_id for ones in admin.list_transactions().values() for one in ones}
        assert producer.transactional_id in listed
    finally:
        admin.close()
    producer.end_well(commit=False)


# ---- the end of an id's transaction by another


@pytest.mark.parametrize("version", [OLD_END, NEW_END])
def test_a_transaction_beyond_its_time_is_aborted(
    connection: RawConnection, producer: RawProducer, topic: str, version: int
) -> None:
    hasty = RawProducer(connection, new_name("tx"), timeout_ms=50).init()
    assert hasty.add_partitions(topic) == ErrorCode.NONE
    assert hasty.produce(topic, b"1", version=OLD_PRODUCE) == ErrorCode.NONE
    wait_for_state(connection, hasty.transactional_id, "CompleteAbort")
    part = by_topic(connection.fetch(topic, 0, isolation_level=1))[topic]
    assert part.last_stable_offset == part.high_watermark == 2
    assert hasty.end(commit=True, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert hasty.produce(topic, b"2") == ErrorCode.INVALID_PRODUCER_EPOCH
