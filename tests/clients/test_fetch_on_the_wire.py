"""Fetch seen frame by frame: what is read, waiting, sessions, the order of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.raw_connection import (
    FETCH_BY_NAME,
    PLENTY,
    RawConnection,
    batch_of,
    by_topic,
    fetch_request,
    produce_request,
    values_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

FOR_EVER_MS = int(PATIENCE_S * 1000)
READ_COMMITTED = 1
OPEN = 0
CLOSE = -1


@pytest.fixture
def connection(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def another(node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(node.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def second_topic(node: NodeProcess) -> str:
    return node.create_topic(new_name("second"))


# ---- what is read


def test_an_offset_inside_a_batch_returns_the_whole_batch(connection: RawConnection, topic: str) -> None:
    connection.produce(topic, batch_of(b"0", b"1", b"2"))
    connection.produce(topic, batch_of(b"3"))

    part = by_topic(connection.fetch(topic, 2))[topic]

    assert values_in(part) == [b"0", b"1", b"2", b"3"]
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (4, 4, 0)


def test_at_least_one_batch_comes_whatever_the_limits(connection: RawConnection, topic: str, second_topic: str) -> None:
    for name in (topic, second_topic):
        connection.produce(name, batch_of(b"a" * 10_000))
        connection.produce(name, batch_of(b"b" * 10_000))

    parts = by_topic(connection.ask(fetch_request({topic: 0, second_topic: 0}, max_bytes=1), FETCH_BY_NAME))
    assert [len(values_in(parts[name])) for name in (topic, second_topic)] == [1, 0]

    parts = by_topic(connection.ask(fetch_request({topic: 2, second_topic: 0}, max_bytes=1), FETCH_BY_NAME))
    assert [len(values_in(parts[name])) for name in (topic, second_topic)] == [0, 1]

    parts = by_topic(connection.ask(fetch_request({topic: 0, second_topic: 0}, partition_max_bytes=1), FETCH_BY_NAME))
    assert [len(values_in(parts[name])) for name in (topic, second_topic)] == [1, 0]


@pytest.mark.parametrize("offset", [-1, 3, 10**12])
def test_an_offset_outside_the_log_is_refused_at_once(connection: RawConnection, topic: str, offset: int) -> None:
    connection.produce(topic, batch_of(b"0", b"1"))

    part = by_topic(connection.fetch(topic, offset, min_bytes=1, max_wait_ms=FOR_EVER_MS))[topic]

    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_below_the_start_of_the_log_is_refused(connection: RawConnection, topic: str) -> None:
    connection.produce(topic, batch_of(b"0", b"1", b"2"))
    deletion = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 2)])
    connection.ask(DeleteRecordsRequest([deletion], FOR_EVER_MS))

    assert by_topic(connection.fetch(topic, 1))[topic].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    part = by_topic(connection.fetch(topic, 2))[topic]
    assert (part.error_code, part.log_start_offset) == (ErrorCode.NONE, 2)
    assert values_in(part)[-1] == b"2"


def test_read_committed_has_a_list_of_aborted_transactions_and_read_uncommitted_has_none(
    connection: RawConnection, topic: str
) -> None:
    connection.produce(topic, batch_of(b"0"))

    committed = by_topic(connection.fetch(topic, 0, isolation_level=READ_COMMITTED))[topic]
    uncommitted = by_topic(connection.fetch(topic, 0))[topic]

    assert (committed.aborted_transactions, committed.last_stable_offset) == ([], 1)
    assert values_in(committed) == values_in(uncommitted) == [b"0"]
    assert uncommitted.aborted_transactions is None


def test_a_topic_is_found_by_its_id_and_an_unknown_id_is_said_so(connection: RawConnection, topic: str) -> None:
    connection.produce(topic, batch_of(b"0"))
    request = fetch_request({"": 0, "-": 0})
    request.topics[0].topic_id = connection.topic_id(topic)
    request.topics[1].topic_id = b"\x07" * 16  # type: ignore[assignment]

    found, lost = connection.ask(request).responses

    assert values_in(found.partitions[0]) == [b"0"]
    assert lost.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# ---- waiting


def test_a_waiting_fetch_gets_what_is_produced_meanwhile(
    connection: RawConnection, another: RawConnection, topic: str
) -> None:
    version = connection.send(fetch_request({topic: 0}, min_bytes=1, max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME)
    another.produce(topic, batch_of(b"news"))

    answer = connection.receive(FetchRequest.API_KEY, version)

    assert values_in(by_topic(answer)[topic]) == [b"news"]


def test_a_waiting_fetch_waits_until_there_is_enough(
    connection: RawConnection, another: RawConnection, topic: str
) -> None:
    version = connection.send(fetch_request({topic: 0}, min_bytes=1000, max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME)
    for _ in range(20):
        another.produce(topic, batch_of(b"x" * 50))

    part = by_topic(connection.receive(FetchRequest.API_KEY, version))[topic]

    assert len(part.records or b"") >= 1000


def test_a_fetch_that_waits_in_vain_says_where_the_log_ends(connection: RawConnection, topic: str) -> None:
    connection.produce(topic, batch_of(b"0"))

    part = by_topic(connection.fetch(topic, 1, min_bytes=1, max_wait_ms=10))[topic]

    assert (part.error_code, part.high_watermark, values_in(part)) == (ErrorCode.NONE, 1, [])


def test_a_fetch_that_needs_no_bytes_is_answered_at_once(connection: RawConnection, topic: str) -> None:
    part = by_topic(connection.fetch(topic, 0, min_bytes=0, max_wait_ms=FOR_EVER_MS))[topic]

    assert (part.error_code, values_in(part)) == (ErrorCode.NONE, [])


def test_a_fetch_of_nothing_is_answered_at_once(connection: RawConnection) -> None:
    answer = connection.ask(fetch_request({}, min_bytes=1, max_wait_ms=FOR_EVER_MS))

    assert (answer.error_code, answer.responses) == (ErrorCode.NONE, [])


def test_deleting_a_topic_ends_the_waiting(connection: RawConnection, another: RawConnection, topic: str) -> None:
    version = connection.send(fetch_request({topic: 0}, min_bytes=1, max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME)
    another.ask(DeleteTopicsRequest(topic_names=[topic]), 5)

    part = by_topic(connection.receive(FetchRequest.API_KEY, version))[topic]

    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- sessions


def test_a_session_tells_only_what_is_new(
    connection: RawConnection, another: RawConnection, topic: str, second_topic: str
) -> None:
    another.produce(topic, batch_of(b"old"))
    opened = connection.ask(fetch_request({topic: 0, second_topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
    session_id = opened.session_id
    assert session_id > 0
    assert set(by_topic(opened)) == {topic, second_topic}

    moved_on = fetch_request({topic: 1}, session_id=session_id, session_epoch=1)
    assert connection.ask(moved_on, FETCH_BY_NAME).responses == []

    another.produce(second_topic, batch_of(b"new"))
    unchanged = fetch_request({}, session_id=session_id, session_epoch=2, min_bytes=1, max_wait_ms=FOR_EVER_MS)
    news = by_topic(connection.ask(unchanged, FETCH_BY_NAME))
    assert {name: values_in(part) for name, part in news.items()} == {second_topic: [b"new"]}


def test_an_incremental_fetch_waits_for_all_partitions_of_its_session(
    connection: RawConnection, another: RawConnection, topic: str, second_topic: str
) -> None:
    opened = connection.ask(fetch_request({topic: 0, second_topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
    waiting = fetch_request({}, session_id=opened.session_id, session_epoch=1, min_bytes=1, max_wait_ms=FOR_EVER_MS)
    version = connection.send(waiting, FETCH_BY_NAME)
    another.produce(second_topic, batch_of(b"new"))

    news = by_topic(connection.receive(FetchRequest.API_KEY, version))

    assert {name: values_in(part) for name, part in news.items()} == {second_topic: [b"new"]}


def test_a_session_tells_of_a_changed_start_and_high_watermark(
    connection: RawConnection, another: RawConnection, topic: str
) -> None:
    opened = connection.ask(fetch_request({topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
    another.produce(topic, batch_of(b"0", b"1"))
    at_the_end = fetch_request({topic: 2}, session_id=opened.session_id, session_epoch=1)
    assert by_topic(connection.ask(at_the_end, FETCH_BY_NAME))[topic].high_watermark == 2

    another.ask(DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 2)])], FOR_EVER_MS))
    again = fetch_request({}, session_id=opened.session_id, session_epoch=2)
    assert by_topic(connection.ask(again, FETCH_BY_NAME))[topic].log_start_offset == 2

    once_more = fetch_request({}, session_id=opened.session_id, session_epoch=3)
    assert connection.ask(once_more, FETCH_BY_NAME).responses == []


def test_a_session_forgets_what_it_is_told_to(
    connection: RawConnection, another: RawConnection, topic: str, second_topic: str
) -> None:
    opened = connection.ask(fetch_request({topic: 0, second_topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
    for name in (topic, second_topic):
        another.produce(name, batch_of(b"new"))

    request = fetch_request({}, session_id=opened.session_id, session_epoch=1)
    request.forgotten_topics_data.append(ForgottenTopic(second_topic, partitions=[0]))

    assert set(by_topic(connection.ask(request, FETCH_BY_NAME))) == {topic}


def test_an_error_in_a_session_is_told_again_and_recovery_too(connection: RawConnection, topic: str) -> None:
    opened = connection.ask(fetch_request({topic: 5}, session_epoch=OPEN), FETCH_BY_NAME)
    for epoch in (1, 2):
        still = fetch_request({}, session_id=opened.session_id, session_epoch=epoch)
        assert by_topic(connection.ask(still, FETCH_BY_NAME))[topic].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    corrected = fetch_request({topic: 0}, session_id=opened.session_id, session_epoch=3)
    part = by_topic(connection.ask(corrected, FETCH_BY_NAME))[topic]

    assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 0)


def test_a_session_follows_a_topic_that_is_deleted_and_made_again(
    node: NodeProcess, connection: RawConnection, topic: str
) -> None:
    with RawConnection(node.bootstrap_servers) as another:
        another.produce(topic, batch_of(b"of the first"))
        opened = connection.ask(fetch_request({topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
        another.ask(DeleteTopicsRequest(topic_names=[topic]), 5)
        gone = fetch_request({topic: 1}, session_id=opened.session_id, session_epoch=1)
        part = by_topic(connection.ask(gone, FETCH_BY_NAME))[topic]
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        node.create_topic(topic)
        another.produce(topic, batch_of(b"of the second"))
        back = fetch_request({topic: 0}, session_id=opened.session_id, session_epoch=2)
        assert values_in(by_topic(connection.ask(back, FETCH_BY_NAME))[topic]) == [b"of the second"]


def test_a_session_that_does_not_exist_or_is_out_of_step_is_refused(connection: RawConnection, topic: str) -> None:
    opened = connection.ask(fetch_request({topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
    other_id = opened.session_id - 1 or 2

    unknown = connection.ask(fetch_request({}, session_id=other_id, session_epoch=1), FETCH_BY_NAME)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    out_of_step = connection.ask(fetch_request({}, session_id=opened.session_id, session_epoch=5), FETCH_BY_NAME)
    assert out_of_step.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    with_ids = connection.ask(fetch_request({}, session_id=opened.session_id, session_epoch=1), FETCH_BY_NAME + 1)
    assert with_ids.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    still_good = connection.ask(fetch_request({}, session_id=opened.session_id, session_epoch=1), FETCH_BY_NAME)
    assert still_good.error_code == ErrorCode.NONE


def test_a_closed_session_is_gone(connection: RawConnection, topic: str) -> None:
    opened = connection.ask(fetch_request({topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)

    closing = connection.ask(
        fetch_request({topic: 0}, session_id=opened.session_id, session_epoch=CLOSE), FETCH_BY_NAME
    )
    assert (closing.error_code, closing.session_id, set(by_topic(closing))) == (ErrorCode.NONE, 0, {topic})

    after = connection.ask(fetch_request({}, session_id=opened.session_id, session_epoch=1), FETCH_BY_NAME)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_are_bounded_and_those_without_a_place_are_served_all_the_same(
    own_node: NodeProcess,
) -> None:
    topic = own_node.create_topic(new_name())
    with RawConnection(own_node.bootstrap_servers) as connection:
        connection.produce(topic, batch_of(b"0"))
        ids = set()
        for _ in range(1200):
            answer = connection.ask(fetch_request({topic: 0}, session_epoch=OPEN), FETCH_BY_NAME)
            assert values_in(by_topic(answer)[topic]) == [b"0"]
            ids.add(answer.session_id)
    assert 0 in ids
    assert len(ids) <= 1001


# ---- order


def test_answers_keep_the_order_of_the_requests(connection: RawConnection, topic: str) -> None:
    expected = []
    for number in range(300):
        for message, version in (
            (produce_request(topic, batch_of(b"%d" % number)), 9),
            (fetch_request({topic: number}, min_bytes=1, max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME),
            (ApiVersionsRequest("test", "1.0"), 3),
        ):
            connection.send(message, version)
            expected.append((message.API_KEY, version))

    produced, fetched = [], []
    for correlation_id, (api_key, version) in enumerate(expected, start=1):
        answer = connection.receive(api_key, version, correlation_id)
        if api_key == FetchRequest.API_KEY:
            fetched.append(values_in(by_topic(answer)[topic])[0])
        elif answer.__class__.__name__ == "ProduceResponse":
            produced.append(answer.responses[0].partition_responses[0].base_offset)

    assert produced == list(range(300))
    assert fetched == [b"%d" % number for number in range(300)]


def test_a_waiting_fetch_does_not_hold_up_the_produce_behind_it(connection: RawConnection, topic: str) -> None:
    """Nor its own connection: what it waits for may come the same way."""
    connection.send(fetch_request({topic: 0}, min_bytes=1, max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME)
    connection.send(produce_request(topic, batch_of(b"from behind")), 9)

    answer = connection.receive(FetchRequest.API_KEY, FETCH_BY_NAME, correlation_id=1)

    assert values_in(by_topic(answer)[topic]) == [b"from behind"]
    assert connection.receive(0, 9).responses[0].partition_responses[0].base_offset == 0


def test_unknown_partition_of_a_known_topic(connection: RawConnection, topic: str) -> None:
    request = FetchRequest(max_bytes=PLENTY, topics=[FetchTopic(topic)])
    request.topics[0].partitions = fetch_request({topic: 0}, partition=7).topics[0].partitions
    part = by_topic(connection.ask(request, FETCH_BY_NAME))[topic]
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
