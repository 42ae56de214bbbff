from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.reading.fetch_session import EPOCH_MAX, FetchSession, Wanted
from headrace.model.names import TopicId, TopicPartition

if TYPE_CHECKING:
    from headrace.wire.messages.fetch import FetchRequest

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)
OTHER = TopicPartition("orders", 0)
ID, NEW_ID = TopicId(b"a" * 16), TopicId(b"b" * 16)


def want(offset: int, topic_id: TopicId = ID) -> Wanted:
    return Wanted(topic_id, offset, 3, 1000)


def ask(session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> FetchRequest:
    return session.request(wanted, max_wait_ms=500, min_bytes=1, max_bytes=10_000)


def asked(request: FetchRequest) -> dict[tuple[str, int], int]:
    return {(topic.topic, part.partition): part.fetch_offset for topic in request.topics for part in topic.partitions}


def forgotten(request: FetchRequest) -> list[tuple[str, bytes, list[int]]]:
    return [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]


def test_the_first_request_says_everything() -> None:
    request = ask(FetchSession(), {FIRST: want(5), OTHER: want(7)})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {FIRST: 5, OTHER: 7}


def test_later_requests_say_only_what_changed() -> None:
    session = FetchSession()
    ask(session, {FIRST: want(5), SECOND: want(6)})
    session.accepted(77)
    request = ask(session, {FIRST: want(5), SECOND: want(8)})
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert asked(request) == {SECOND: 8}
    assert forgotten(request) == []


def test_what_is_not_wanted_any_more_is_taken_out_of_the_session() -> None:
    session = FetchSession()
    ask(session, {FIRST: want(5), SECOND: want(6)})
    session.accepted(77)
    request = ask(session, {FIRST: want(5)})
    assert asked(request) == {}
    assert forgotten(request) == [("events", ID, [1])]
    session.accepted(77)
    assert asked(ask(session, {FIRST: want(5), SECOND: want(6)})) == {SECOND: 6}


def test_a_topic_made_again_replaces_the_old_one() -> None:
    session = FetchSession()
    ask(session, {FIRST: want(5)})
    session.accepted(77)
    request = ask(session, {FIRST: want(0, NEW_ID)})
    assert forgotten(request) == [("events", ID, [0])]
    assert request.topics[0].topic_id == NEW_ID


def test_a_session_that_is_lost_begins_again_with_everything() -> None:
    session = FetchSession()
    ask(session, {FIRST: want(5)})
    session.accepted(77)
    session.reset()
    request = ask(session, {FIRST: want(5)})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {FIRST: 5}


def test_a_node_without_room_for_sessions_is_told_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(2):
        request = ask(session, {FIRST: want(5)})
        assert (request.session_id, request.session_epoch, asked(request)) == (0, 0, {FIRST: 5})
        session.accepted(0)


def test_epochs_wrap_to_one_since_zero_would_open_a_new_session() -> None:
    session = FetchSession()
    session.accepted(77)
    session._epoch = EPOCH_MAX
    session.accepted(77)
    assert ask(session, {}).session_epoch == 1
