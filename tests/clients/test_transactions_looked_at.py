"""What operators see of transactions, and the markers that they may write by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import KafkaAdminClient

from headrace.metadata.configs.internal_topics import TRANSACTION_STATE
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.clients.commands import call
from tests.clients.nodes import new_name
from tests.clients.raw_connection import RawConnection, by_topic, values_in
from tests.clients.raw_transactions import (
    NEW_END,
    NEW_PRODUCE,
    OLD_END,
    OLD_PRODUCE,
    TIMEOUT_MS,
    RawProducer,
    describe,
    fetch_all,
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


def write_marker(
    producer: RawProducer, topic: str, *, commit: bool, epoch: int, coordinator_epoch: int = ANY_COORDINATOR
) -> ErrorCode:
    """With the connection that it is given, that is: as a tool does which looks after the cluster."""
    topics = [WritableTxnMarkerTopic(topic, [0])]
    marker = WritableTxnMarker(producer.producer_id, epoch, commit, topics, coordinator_epoch)
    answer = producer.connection.ask(WriteTxnMarkersRequest([marker]), 1)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def stable_and_written(connection: RawConnection, topic: str) -> tuple[int, int]:
    part = by_topic(connection.fetch(topic, 0, isolation_level=1))[topic]
    return part.last_stable_offset, part.high_watermark


def forget_transactions(node: NodeProcess) -> None:
    """All that coordinators know is gone, and whatever is open hangs."""
    connection = RawConnection(node.bootstrap_servers)
    with connection:
        connection.ask(DeleteTopicsRequest([DeleteTopicState(TRANSACTION_STATE)]))


def test_a_marker_by_hand_frees_a_partition(own_node: NodeProcess) -> None:
    """As `kafka-transactions abort` does for a transaction that hangs: with the coordinator's epoch that
    DescribeProducers told it, or 0."""
    topic = own_node.create_topic(new_name())
    with RawConnection(own_node.bootstrap_servers) as connection:
        new, known = (RawProducer(connection, new_name("tx")).init() for _ in range(2))
        assert known.produce(topic, b"1") == ErrorCode.NONE
        known.end_well(commit=True)
        hanging = {known: 0, new: -1}
        for producer, told in hanging.items():
            assert producer.produce(topic, b"2") == ErrorCode.NONE
            assert producers_of(connection, topic)[producer.producer_id].coordinator_epoch == told
        forget_transactions(own_node)
        for producer in hanging:
            assert write_marker(producer, topic, commit=False, epoch=producer.producer_epoch) == ErrorCode.NONE
        assert stable_and_written(connection, topic) == (6, 6)
        again = write_marker(new, topic, commit=False, epoch=new.producer_epoch)
        assert again == ErrorCode.INVALID_TXN_STATE


def test_our_own_tools_free_a_partition(own_node: NodeProcess) -> None:
    topic = own_node.create_topic(new_name())
    with RawConnection(own_node.bootstrap_servers) as connection:
        producer = RawProducer(connection, new_name("tx")).init()
        assert producer.produce(topic, b"1") == ErrorCode.NONE
        place = ("--topic", topic, "--partition", "0")
        abort = ("transactions", "abort", *place, "--producer-id", str(producer.producer_id))
        alive = call(own_node.bootstrap_servers, *abort)
        assert (alive.code, "a coordinator looks after the transaction" in alive.talk) == (1, True)
        assert "hint: `headrace transactions list` shows its id" in alive.talk
        assert stable_and_written(connection, topic) == (0, 1)
        forget_transactions(own_node)
        freed = call(own_node.bootstrap_servers, *abort)
        assert (freed.code, freed.talk) == (
            0,
            f"aborted the transaction of producer {producer.producer_id} in {topic}-0\n",
        )
        assert stable_and_written(connection, topic) == (2, 2)


FORGED = {
    "an abort of what is alive": ({}, ErrorCode.INVALID_TXN_STATE),
    "a commit": ({"commit": True}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    "a coordinator that cannot be": ({"coordinator_epoch": 2**31 - 1}, ErrorCode.INVALID_REQUEST),
    "a coordinator that may be": ({"coordinator_epoch": 1}, ErrorCode.INVALID_REQUEST),
    "an epoch to come": ({"epoch": 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    "the last epoch": ({"epoch": 2**15 - 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    "no epoch": ({"epoch": -1}, ErrorCode.INVALID_PRODUCER_EPOCH),
}


@pytest.mark.parametrize(("forged", "code"), FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("version", [OLD_END, NEW_END], ids=["older flow", "newer flow"])
def test_a_forged_marker_takes_nothing_from_a_transaction_that_is_alive(
    connection: RawConnection, producer: RawProducer, topic: str, forged: dict[str, Any], code: ErrorCode, version: int
) -> None:
    marker = {"commit": False, "epoch": producer.producer_epoch, **forged}
    produce_version = OLD_PRODUCE if version == OLD_END else NEW_PRODUCE
    if version == OLD_END:
        assert producer.add_partitions(topic) == ErrorCode.NONE
    assert producer.produce(topic, b"1", version=produce_version) == ErrorCode.NONE
    assert write_marker(producer, topic, **marker) == code
    assert producer.produce(topic, b"2", version=produce_version) == ErrorCode.NONE
    producer.end_well(commit=True, version=version)
    wait_for_state(connection, producer.transactional_id, "CompleteCommit")
    assert stable_and_written(connection, topic) == (3, 3)
    pieces = fetch_all(connection, topic, isolation_level=1)
    assert sum(len(values_in(piece)) for piece in pieces) == 3  # two records and the marker
    assert not any(piece.aborted_transactions for piece in pieces)


def test_a_marker_for_a_producer_to_come_is_refused(connection: RawConnection, topic: str) -> None:
    """Its number can be guessed. A partition that believed it would refuse all markers of its coordinator."""
    future = RawProducer(connection, new_name("tx"))
    future.producer_id = RawProducer(connection, new_name("tx")).init().producer_id + 1
    refused = write_marker(future, topic, commit=False, epoch=0, coordinator_epoch=2**31 - 1)
    assert refused == ErrorCode.INVALID_TXN_STATE
    assert stable_and_written(connection, topic) == (0, 0)


def test_a_marker_of_an_old_epoch_is_refused(connection: RawConnection, producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, b"1") == ErrorCode.NONE
    producer.end_well(commit=True)
    assert producer.produce(topic, b"2") == ErrorCode.NONE
    late = write_marker(producer, topic, commit=False, epoch=producer.producer_epoch - 1)
    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.end_well(commit=True)


def test_a_marker_for_a_topic_that_does_not_exist(producer: RawProducer) -> None:
    code = write_marker(producer, new_name("missing"), commit=False, epoch=0)
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
    hasty = RawProducer(connection, new_name("tx"), timeout_ms=2000).init()  # time to write something first
    assert hasty.add_partitions(topic) == ErrorCode.NONE
    assert hasty.produce(topic, b"1", version=OLD_PRODUCE) == ErrorCode.NONE
    wait_for_state(connection, hasty.transactional_id, "CompleteAbort")
    part = by_topic(connection.fetch(topic, 0, isolation_level=1))[topic]
    assert part.last_stable_offset == part.high_watermark == 2
    assert hasty.end(commit=True, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert hasty.produce(topic, b"2") == ErrorCode.INVALID_PRODUCER_EPOCH
