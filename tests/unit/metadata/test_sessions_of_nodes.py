"""Who is missed, and when."""

from __future__ import annotations

from headrace.metadata.liveness import GRACE, Sessions, lease_ms
from headrace.model.names import NodeId

SESSION_MS = 2000
WAITED_MS = int(SESSION_MS * GRACE)
SUSPECTED_MS = int(lease_ms(SESSION_MS) * GRACE)
ONE, TWO = NodeId(1), NodeId(2)
BOTH = {ONE: SESSION_MS, TWO: SESSION_MS}


def test_a_node_is_missed_when_its_session_is_over() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.heard(TWO, SESSION_MS, 500)
    assert sessions.lapsed(WAITED_MS - 1) == []
    assert sessions.lapsed(WAITED_MS) == [ONE]
    assert sessions.lapsed(WAITED_MS + 500) == [ONE, TWO]


def test_a_node_where_nobody_listens_is_missed_when_its_lease_is_over() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.suspect(ONE)
    assert sessions.lapsed(SUSPECTED_MS - 1) == []
    assert sessions.lapsed(SUSPECTED_MS) == [ONE]
    sessions.heard(ONE, SESSION_MS, 100)
    assert sessions.lapsed(WAITED_MS - 1) == []


def test_a_time_in_which_nobody_could_be_heard_does_not_count() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.suspect(TWO)
    sessions.prolong(300)
    assert sessions.lapsed(SUSPECTED_MS + 299) == []
    assert sessions.lapsed(WAITED_MS + 299) == [TWO]
    assert sessions.lapsed(WAITED_MS + 300) == [ONE, TWO]


def test_a_node_that_does_not_answer_a_new_controller_is_missed_when_its_lease_is_over() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.not_answering({ONE})
    assert sessions.next_end_ms() == SUSPECTED_MS
    assert sessions.lapsed(SUSPECTED_MS - 1) == []
    assert sessions.lapsed(SUSPECTED_MS) == [ONE]
    sessions.not_answering(())  # it has answered just in time
    assert sessions.lapsed(WAITED_MS - 1) == []
    assert sessions.lapsed(WAITED_MS) == [ONE, TWO]


def test_a_node_that_was_heard_has_a_whole_session_though_it_has_answered_nothing_else() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.not_answering({ONE})
    sessions.heard(ONE, SESSION_MS, 100)
    sessions.not_answering({ONE})
    assert sessions.lapsed(100 + WAITED_MS - 1) == [TWO]
    assert sessions.lapsed(100 + WAITED_MS) == [ONE, TWO]


def test_that_a_node_answers_does_not_make_its_port_open() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.suspect(ONE)
    sessions.not_answering({ONE})
    sessions.not_answering(())
    assert sessions.lapsed(SUSPECTED_MS) == [ONE]
