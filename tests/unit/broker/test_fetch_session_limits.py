"""Fetch sessions are bounded in number and in what they hold, whatever clients pretend to want."""

from __future__ import annotations

import pytest

from headrace.broker.partitions import session_cache
from headrace.broker.partitions.fetch_session import NO_SESSION, FetchSession, PartitionFetch
from headrace.broker.partitions.session_cache import SessionCache
from headrace.broker.partitions.topic_table import TopicTable
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Epoch, Offset
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy

LIMIT = 1000
SESSIONS = 50


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> SessionCache:
    monkeypatch.setattr(session_cache, "SESSION_PARTITIONS_MAX", LIMIT)
    return SessionCache(TopicTable(), SystemClock(), SystemEntropy(), slots=SESSIONS)


def want(session: FetchSession, count: int) -> None:
    for index in range(len(session), len(session) + count):
        session.want("nowhere", index, PartitionFetch(Offset(0), 1, Epoch(-1)))


def opened(sessions: SessionCache, count: int) -> FetchSession:
    session = sessions.open(count, uses_topic_ids=False)
    want(session, count)
    return session


def test_a_session_that_does_not_fit_lives_for_one_request(sessions: SessionCache) -> None:
    assert opened(sessions, LIMIT - 1).session_id != NO_SESSION
    assert opened(sessions, 2).session_id == NO_SESSION
    assert opened(sessions, 1).session_id != NO_SESSION


def test_a_session_that_grows_too_large_is_closed_and_its_place_is_free_again(sessions: SessionCache) -> None:
    session = opened(sessions, LIMIT)
    sessions.check_size(session)
    want(session, 1)
    with pytest.raises(Refusal) as refusal:
        sessions.check_size(session)
    assert refusal.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(session) == 0
    assert opened(sessions, LIMIT).session_id != NO_SESSION


def test_sessions_in_use_are_not_taken_away_for_new_ones(sessions: SessionCache) -> None:
    for _ in range(SESSIONS):
        assert opened(sessions, 0).session_id != NO_SESSION
    assert opened(sessions, 0).session_id == NO_SESSION
    assert len(sessions) == SESSIONS
