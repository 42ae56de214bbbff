"""Fetch sessions between a follower and its leader: what is told, what is sent, and what never is sent twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.broker.partitions.deletion import delete_records
from headrace.broker.partitions.fetch_session import (
    ANSWERS_APART_S,
    GATHER_BELOW,
    NO_SESSION,
    FetchingFollower,
    FetchSession,
    PartitionFetch,
)
from headrace.broker.partitions.session_cache import SessionCache
from headrace.broker.partitions.topic_table import ServedTopic, TopicTable
from headrace.broker.replicas import fetcher_session as follower_session
from headrace.broker.replicas.fetcher_session import FetcherSession
from headrace.model.errors import ErrorCode
from headrace.model.names import NO_EPOCH, Epoch, LogId, NodeId, Offset, TopicId
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.settings import LogSettings
from tests.unit.broker.small_partitions import NODE, SmallPartition, batch_of
from tests.unit.storage.small_logs import new_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.broker.partitions.fetch_session import Collected
    from headrace.wire.messages.fetch import FetchPartition, FetchRequest

FOLLOWER = NodeId(2)
LIFE = 7
EPOCH = Epoch(0)
ROOM = 1 << 20
NOW_S = 100.0
SETTINGS = LogSettings(segment_ms=1 << 60, retention_ms=None)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallPartition]:
    disk = SystemDisk(tmp_path)
    yield SmallPartition(new_log(disk, SETTINGS), disk)
    disk.close()


class Hurried:
    """A fetch that waits, and hears of what would wake it."""

    def __init__(self) -> None:
        self.changes = 0
        self.hurries = 0

    def session_changed(self) -> None:
        self.changes += 1

    def hurry(self) -> None:
        self.hurries += 1


class Leader:
    """The leader's half: one partition, and a follower's session for it."""

    def __init__(self, small: SmallPartition) -> None:
        self.small = small
        small.partition.replica.set_in_sync([NODE, FOLLOWER])
        self.topics = TopicTable()
        served = ServedTopic(small.log.log_id.topic_id, "orders")
        served.partitions = [None] * small.partition.index + [small.partition]
        self.topics.add(served)
        self.sessions = SessionCache(self.topics, SystemClock(), SystemEntropy(), slots=0)
        self.session = self.open()

    def open(self) -> FetchSession:
        session = self.sessions.open_for_follower(FOLLOWER)
        session.follower = FetchingFollower(FOLLOWER, LIFE)
        return session

    def asked(self, offset: int | None = None, *, unanswered: int = 0, flushed: int = 0) -> None:
        """A request arrives that names the partition, unless `offset` is None."""
        self.session.begin_request(unanswered)
        if offset is not None:
            index, topic_id = self.small.partition.index, self.small.log.log_id.topic_id
            fetch = PartitionFetch(Offset(offset), ROOM, EPOCH, flushed=Offset(flushed))
            self.session.want(topic_id, index, fetch)
            self.session.note_progress(topic_id, index, fetch)

    def answer(self) -> list[tuple[int, int]]:
        """Answers the last request; positions and sizes of what is sent, in the log's file."""
        collected = self.look()
        self.session.note_told(collected, self.session.request_number, NOW_S)
        return _sent(collected)

    def look(self) -> Collected:
        return self.session.collect(ROOM, is_full=False, is_committed_only=False)


def _sent(collected: Collected) -> list[tuple[int, int]]:
    slices = [(piece.position, piece.size) for piece in collected.slices()]
    collected.release()
    return slices


BATCH_BYTES = len(batch_of())


def test_what_crossed_a_request_is_not_sent_again(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    assert leader.answer() == [(0, BATCH_BYTES)]
    leader.asked(0, unanswered=1)  # sent before that answer was there
    assert leader.answer() == []
    small.send(batch_of())
    leader.asked(unanswered=1)
    assert leader.answer() == [(BATCH_BYTES, BATCH_BYTES)]


def test_what_a_follower_has_seen_and_still_asks_for_is_sent_again(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    assert leader.answer() == [(0, BATCH_BYTES)]
    leader.asked(0)
    assert leader.answer() == [(0, BATCH_BYTES)]


def test_a_partition_that_is_begun_anew_is_read_from_where_it_says(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    assert leader.answer() == [(0, BATCH_BYTES)]
    leader.session.forget(small.log.log_id.topic_id, small.partition.index)
    leader.asked(0, unanswered=1)
    assert leader.answer() == [(0, BATCH_BYTES)]


def test_a_look_that_sends_nothing_moves_nothing(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    leader.look().release()
    assert leader.answer() == [(0, BATCH_BYTES)]


def test_a_look_that_sends_nothing_loses_no_news(small: SmallPartition) -> None:
    """A fetch waits for records. The high watermark alone does not end its wait, but it is told then."""
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    leader.answer()
    small.flush()
    leader.asked(1, flushed=1)
    assert small.partition.high_watermark == 1
    for _ in range(2):
        looked = leader.look()
        assert [fetched.high_watermark for _, fetched in looked.results] == [1]
    leader.session.note_told(looked, leader.session.request_number, NOW_S)
    assert leader.look().results == []


def test_after_a_small_answer_a_follower_waits_a_moment_for_more(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    looked = leader.look()
    assert leader.session.gather_s(looked, NOW_S) <= 0, "the first after a pause is sent at once"
    looked.release()
    leader.answer()
    leader.asked(1)
    small.send(batch_of())
    looked = leader.look()
    assert leader.session.gather_s(looked, NOW_S + ANSWERS_APART_S / 4) == pytest.approx(ANSWERS_APART_S * 3 / 4)
    assert leader.session.gather_s(looked, NOW_S + 2 * ANSWERS_APART_S) <= 0
    looked.bytes_read = GATHER_BELOW
    assert leader.session.gather_s(looked, NOW_S) <= 0, "much is worth an answer of its own"
    leader.session.follower = None
    looked.bytes_read = BATCH_BYTES
    assert leader.session.gather_s(looked, NOW_S) <= 0, "a consumer says itself what it waits for"
    looked.release()


def test_a_log_that_begins_inside_a_batch_is_followed_from_where_that_batch_begins(small: SmallPartition) -> None:
    leader = Leader(small)
    small.partition.replica.set_in_sync([NODE])
    small.send(batch_of(2))
    small.send(batch_of(3))
    small.flush()
    delete_records(small.partition, Offset(3))
    leader.asked(0)
    ((_, refused),) = leader.look().results
    assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused.log_start_offset == 2, "a replica that began at 3 would lack the batch that holds it"
    leader.asked(2)
    assert leader.answer() == [(len(batch_of(2)), len(batch_of(3)))]


def test_a_replica_that_ends_inside_the_first_batch_begins_anew_where_that_begins(small: SmallPartition) -> None:
    """Another leader has written what it has there; what would show that was deleted here."""
    leader = Leader(small)
    small.partition.replica.set_in_sync([NODE])
    small.send(batch_of(2))
    small.send(batch_of(3))
    small.flush()
    delete_records(small.partition, Offset(4))
    leader.asked(3)
    ((_, diverged),) = leader.look().results
    assert diverged.diverging == (NO_EPOCH, 2)
    leader.asked(2)
    assert leader.answer() == [(len(batch_of(2)), len(batch_of(3)))]


def test_a_consumer_that_asks_for_nothing_new_gets_the_same_again(small: SmallPartition) -> None:
    leader = Leader(small)
    small.partition.replica.set_in_sync([NODE])
    small.send(batch_of())
    small.flush()
    consumer = SessionCache(leader.topics, SystemClock(), SystemEntropy(), slots=1).open(1, uses_topic_ids=True)
    consumer.want(small.log.log_id.topic_id, small.partition.index, PartitionFetch(Offset(0), ROOM, Epoch(-1)))
    for _ in range(2):
        consumer.begin_request()
        collected = consumer.collect(ROOM, is_full=False, is_committed_only=False)
        consumer.note_told(collected, consumer.request_number, NOW_S)
        assert _sent(collected) == [(0, BATCH_BYTES)]


def test_a_new_high_watermark_is_told_and_hastens_nothing(small: SmallPartition) -> None:
    leader = Leader(small)
    leader.asked(0)
    small.send(batch_of())
    leader.answer()
    leader.asked(1)
    leader.answer()
    waiting = leader.session.on_change = Hurried()
    small.flush()
    leader.asked(1, flushed=1)
    assert small.partition.high_watermark == 1
    assert waiting.changes == 0
    ((_, told),) = leader.look().results
    assert told.high_watermark == 1


def test_a_follower_always_has_one_session_and_the_one_before_is_answered(small: SmallPartition) -> None:
    leader = Leader(small)  # its cache has no slots for anybody else
    waiting = leader.session.on_change = Hurried()
    leader.asked(0)
    leader.look().release()
    again = leader.open()
    assert waiting.hurries == 1
    assert len(leader.session) == 0
    assert again.session_id not in {NO_SESSION, leader.session.session_id}
    assert len(leader.sessions) == 1
    small.send(batch_of())
    assert waiting.changes == 0, "it listens no longer"


# ---- the follower's half


def named(request: FetchRequest) -> list[FetchPartition]:
    return [part for topic in request.topics for part in topic.partitions]


def forgotten(request: FetchRequest) -> list[LogId]:
    return [LogId(it.topic_id, index) for it in request.forgotten_topics_data for index in it.partitions]


def opened(small: SmallPartition) -> FetcherSession:
    session = FetcherSession()
    session.add(small.partition)
    assert len(named(session.request(0))) == 1
    assert session.answered(5)
    return session


def test_the_first_request_opens_and_those_after_it_are_counted(small: SmallPartition) -> None:
    session = FetcherSession()
    session.add(small.partition)
    first = session.request(0)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert not session.is_open
    assert session.answered(5)
    assert [(it.session_id, it.session_epoch) for it in (session.request(0), session.request(1))] == [(5, 1), (5, 2)]
    assert not session.answered(6), "that is another session"
    session.reset()
    again = session.request(0)
    assert (again.session_id, again.session_epoch, len(named(again))) == (0, 0, 1)


def test_only_what_has_changed_is_named(small: SmallPartition) -> None:
    session, log_id = opened(small), small.log.log_id
    session.may_have_changed(log_id)
    assert named(session.request(0)) == []
    small.send(batch_of())
    session.may_have_changed(log_id)
    (written,) = named(session.request(0))
    assert (written.fetch_offset, written.flushed_offset) == (1, 0)
    small.flush()
    session.may_have_changed(log_id)
    (flushed,) = named(session.request(1))
    assert (flushed.fetch_offset, flushed.flushed_offset) == (1, 1)


def test_who_is_left_is_forgotten_once_and_only_if_it_was_ever_named(small: SmallPartition) -> None:
    session, log_id = opened(small), small.log.log_id
    session.remove(log_id)
    assert forgotten(session.request(0)) == [log_id]
    assert forgotten(session.request(0)) == []
    session.add(small.partition)
    session.remove(log_id)
    assert forgotten(session.request(0)) == []


def test_answers_to_requests_from_before_a_partition_was_begun_are_void(small: SmallPartition) -> None:
    session, log_id = opened(small), small.log.log_id
    session.request(0)
    under_way = session.request_number
    assert session.expects(log_id, under_way) is small.partition
    session.begin_again(small.partition)
    assert session.expects(log_id, under_way) is None
    request = session.request(1)
    assert forgotten(request) == [log_id], "the leader must not go on where it was"
    assert len(named(request)) == 1
    assert session.expects(log_id, session.request_number) is small.partition


def test_what_has_another_partition_in_its_place_is_not_begun_again(small: SmallPartition) -> None:
    session = opened(small)
    session.remove(small.log.log_id)
    session.begin_again(small.partition)
    assert len(session) == 0


def test_many_partitions_are_named_in_several_requests(small: SmallPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_session, "NAMED_MAX", 1)
    session = FetcherSession()
    session.add(small.partition)
    small.log.log_id = LogId(TopicId(b"another topic..."), 0)
    session.add(small.partition)
    assert len(named(session.request(0))) == 1
    assert session.has_more_to_say
    assert session.answered(5)
    assert len(named(session.request(0))) == 1
    assert not session.has_more_to_say
