"""Who is missed, and when."""

from __future__ import annotations

from headrace.metadata.liveness import GRACE, Sessions
from headrace.model.names import NodeId

SESSION_MS = 2000
WAITED_MS = int(SESSION_MS * GRACE)
ONE, TWO = NodeId(1), NodeId(2)
BOTH = {ONE: SESSION_MS, TWO: SESSION_MS}


def test_a_node_is_missed_when_its_session_is_over() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.heard(TWO, SESSION_MS, 500)
    assert sessions.lapsed(WAITED_MS - 1) == []
    assert sessions.lapsed(WAITED_MS) == [ONE]
    assert sessions.lapsed(WAITED_MS + 500) == [ONE, TWO]


def test_a_node_that_is_known_to_be_gone_is_missed_at_once() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.end(ONE)
    assert sessions.lapsed(1) == [ONE]


def test_a_time_in_which_nobody_could_be_heard_does_not_count() -> None:
    sessions = Sessions(BOTH, 0)
    sessions.end(TWO)
    sessions.prolong(300)
    assert sessions.lapsed(WAITED_MS + 299) == [TWO]
    assert sessions.lapsed(WAITED_MS + 300) == [ONE, TWO]
