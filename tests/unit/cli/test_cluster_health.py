from __future__ import annotations

import pytest

from headrace.cli.cluster.health import QUIET_MS, Health, health_of
from headrace.cli.cluster.reassignment import Pace, pace_text, plan_facts, plan_text, waiting_text
from headrace.cli.cluster.text import (
    node_facts,
    nodes_text,
    status_facts,
    status_text,
    under_replicated_facts,
    under_replicated_text,
)
from headrace.client.admin.admin import ClusterDescription, ClusterNode
from headrace.client.admin.cluster import Move, PlannedMove, Quorum, QuorumMember
from headrace.client.connections.view import ClusterView, Partition, Topic
from headrace.model.names import NO_NODE, NO_TOPIC_ID, Epoch, Millis, NodeId, Offset, TopicPartition
from headrace.runtime.network import Address

NOW_MS = 1_700_000_000_000
WELL = (1, 1, 2, 3)
EVENTS_0, EVENTS_1 = TopicPartition("events", 0), TopicPartition("events", 1)


def partition(index: int, leader: int, *isr: int) -> Partition:
    return Partition(index, NodeId(leader), Epoch(0), (1, 2, 3), isr, ())


def member(node_id: int, log_end: int | None = 100, quiet_ms: int = 0) -> QuorumMember:
    end = None if log_end is None else Offset(log_end)
    return QuorumMember(NodeId(node_id), end, None if log_end is None else Millis(NOW_MS - quiet_ms))


def quorum(*voters: QuorumMember, learners: tuple[QuorumMember, ...] = ()) -> Quorum:
    return Quorum(NodeId(1), Epoch(7), Offset(100), voters or (member(1), member(2), member(3)), learners)


ALL_THERE = quorum()


def health(
    *partitions: Partition, agreed: Quorum | None = ALL_THERE, moves: dict[TopicPartition, Move] | None = None
) -> Health:
    nodes = (
        ClusterNode(NodeId(1), Address("localhost", 9092), None, False, False),
        ClusterNode(NodeId(2), Address("localhost", 9192), "west", False, True),
        ClusterNode(NodeId(3), Address("localhost", 9292), None, True, False),
    )
    view = ClusterView(topics={"events": Topic("events", NO_TOPIC_ID, False, partitions)})
    return health_of(ClusterDescription("id", NodeId(2), nodes), agreed, view, moves or {})


def test_a_healthy_cluster() -> None:
    well = health(partition(0, *WELL))
    assert well.is_healthy
    assert "State:                       healthy" in status_text(well)
    assert "Quorum:                      3 of 3 voters are there, term 7" in status_text(well)
    assert status_facts(well)["offline_partitions"] == []


@pytest.mark.parametrize(
    ("unwell", "fact", "line"),
    [
        (health(partition(0, *WELL), partition(1, NO_NODE)), "offline_partitions", "Offline partitions:"),
        (health(partition(0, *WELL), partition(1, 2, 2)), "under_replicated_partitions", "Under-replicated"),
    ],
)
def test_an_unhealthy_cluster_names_the_partitions(unwell: Health, fact: str, line: str) -> None:
    assert not unwell.is_healthy
    assert status_facts(unwell)[fact] == ["events-1"]
    (shown,) = (text for text in status_text(unwell).splitlines() if text.startswith(line))
    assert shown.endswith("1 (events-1)")


def test_a_cluster_without_controller_is_unhealthy() -> None:
    lost = health(partition(0, *WELL), agreed=None)
    assert not lost.is_healthy
    assert status_facts(lost)["controller"] is None
    assert "Controller:                  none" in status_text(lost)


@pytest.mark.parametrize("silent", [member(3, None), member(3, quiet_ms=QUIET_MS + 1)])
def test_a_voter_that_says_nothing_is_told_of(silent: QuorumMember) -> None:
    unwell = health(partition(0, *WELL), agreed=quorum(member(1), member(2), silent))
    assert not unwell.is_healthy
    assert "2 of 3 voters are there, term 7; silent: 3" in status_text(unwell)


def test_how_far_each_member_of_the_quorum_is() -> None:
    agreed = quorum(member(1), member(2, 90), member(3, None), learners=(member(4, 40),))
    told = status_facts(health(agreed=agreed))["quorum"]
    assert isinstance(told, dict)
    assert [(it["node_id"], it["is_voter"], it["lag"]) for it in told["members"]] == [
        (1, True, 0),
        (2, True, 10),
        (3, True, None),
        (4, False, 60),
    ]


def test_nodes_and_what_they_have() -> None:
    found = health(partition(0, *WELL), partition(1, 1, 1, 2))
    assert nodes_text(found).splitlines() == [
        "NODE  ADDRESS         RACK  STATE     ROLE        LEADS  REPLICAS  IN SYNC",
        "   1  localhost:9092  -     up        controller      2         2        2",
        "   2  localhost:9192  west  draining  voter           0         2        2",
        "   3  localhost:9292  -     away      voter           0         2        1",
    ]
    assert [(it["is_fenced"], it["is_draining"]) for it in node_facts(found)] == [
        (False, False),
        (False, True),
        (True, False),
    ]


def test_a_copy_that_is_only_being_made_is_not_missed() -> None:
    moving = health(partition(0, 1, 1, 2), moves={EVENTS_0: Move((1, 2, 3), (3,), ())})
    assert moving.is_healthy
    assert "Moving partitions:           1 (events-0)" in status_text(moving)
    assert not health(partition(0, 1, 1), moves={EVENTS_0: Move((1, 2, 3), (3,), ())}).is_healthy


def test_partitions_that_lack_copies() -> None:
    found = health(partition(0, *WELL), partition(1, 2, 2), partition(2, NO_NODE, 3))
    assert under_replicated_text(found).splitlines() == [
        "TOPIC   PARTITION  LEADER  REPLICAS  ISR  MISSING",
        "events          1  2       1,2,3     2    1,3",
        "events          2  none    1,2,3     3    1,2",
    ]
    assert [it["missing"] for it in under_replicated_facts(found)] == [[1, 3], [1, 2]]


def test_status_counts_as_under_replicated_what_the_command_for_it_shows() -> None:
    found = health(partition(0, *WELL), partition(1, 2, 2), partition(2, NO_NODE, 3), partition(3, NO_NODE, 1, 2, 3))
    shown = [f"{it['topic']}-{it['partition']}" for it in under_replicated_facts(found)]
    assert status_facts(found)["under_replicated_partitions"] == shown == ["events-1", "events-2"]
    assert status_facts(found)["offline_partitions"] == ["events-2", "events-3"]


def test_whoever_waits_for_moves_hears_why_some_cannot_go_on() -> None:
    assert waiting_text([EVENTS_0, EVENTS_1], []) == "2 partitions still moving, events-0 among them"
    stuck = waiting_text([EVENTS_0, EVENTS_1], [EVENTS_1])
    assert "nobody leads events-1, so nothing can be copied" in stuck
    assert "elect-leaders --topic events`" in stuck
    assert "--unclean" in stuck
    assert "nobody leads events-0 and 1 more" in waiting_text([EVENTS_0, EVENTS_1], [EVENTS_0, EVENTS_1])


def test_a_plan_says_from_where_to_where() -> None:
    moves = [PlannedMove(EVENTS_0, (1, 2), (2, 4)), PlannedMove(EVENTS_1, (3,), (4,))]
    assert plan_text(moves).splitlines() == [
        "TOPIC   PARTITION  FROM  TO  REPLICAS  TARGET",
        "events          0  1     4   1,2       2,4",
        "events          1  3     4   3         4",
    ]
    assert plan_facts(moves)[0]["from"] == [1]


def test_the_pace_of_moves() -> None:
    assert pace_text(Pace(10)) == "10 at a time"
    assert pace_text(Pace(2, 5_000_000)) == "2 at a time, no more than 5 MB/s from or to each node"
