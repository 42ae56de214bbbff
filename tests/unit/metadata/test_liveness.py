"""Who is there, and until when."""

from __future__ import annotations

import pytest

from headrace.broker.membership.local_node import Heartbeats
from headrace.metadata.configs.settings import node_settings_from
from headrace.metadata.liveness import GRACE, Lease, Sessions
from headrace.model.errors import Refusal
from headrace.model.names import NodeId

ONE, TWO = NodeId(1), NodeId(2)
HASTY_MS, PATIENT_MS = 1_000, 5_000


def test_each_node_has_the_session_that_it_has_registered():
    sessions = Sessions({ONE: HASTY_MS, TWO: PATIENT_MS}, now_ms=0)
    assert sessions.lapsed(HASTY_MS) == []  # the node's own clock may be slower than ours
    assert sessions.lapsed(int(HASTY_MS * GRACE)) == [ONE]
    sessions.heard(ONE, HASTY_MS, now_ms=HASTY_MS)
    assert sessions.lapsed(int(HASTY_MS * GRACE)) == []
    assert sessions.lapsed(int(PATIENT_MS * GRACE)) == [ONE, TWO]


@pytest.mark.parametrize("is_suspect", [False, True], ids=["silent", "nobody listens there"])
@pytest.mark.parametrize("session_ms", [HASTY_MS, PATIENT_MS])
def test_a_node_stops_leading_before_any_controller_takes_over(session_ms, is_suspect):
    sent_ms, arrived_ms = 100, 101
    lease, sessions = Lease(session_ms), Sessions({}, 0)
    sessions.heard(ONE, session_ms, arrived_ms)
    lease.renewed(sent_ms)
    if is_suspect:
        sessions.suspect(ONE)
    over_ms = next(now_ms for now_ms in range(0, 10_000, 10) if sessions.lapsed(now_ms))
    assert not lease.is_valid(over_ms)
    next_controller = Sessions({ONE: session_ms}, arrived_ms)  # it took over in that very moment
    if is_suspect:
        next_controller.suspect(ONE)
    assert not next_controller.lapsed(lease.end_ms)


def test_one_lost_heartbeat_must_not_end_a_session():
    assert Heartbeats.of(node_settings_from({})) == Heartbeats(400, 2000)
    given = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "600"}
    with pytest.raises(Refusal, match="at least twice"):
        Heartbeats.of(node_settings_from(given))
