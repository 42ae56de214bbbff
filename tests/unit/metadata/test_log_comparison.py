"""Who leads after an outage in which everybody who was in sync has crashed."""

from __future__ import annotations

import pytest

from headrace.metadata.commands.node_commands import drain_node, fence_node
from headrace.metadata.elections.log_end_comparison import LogEnd, elect_longest, replicas_to_compare
from headrace.model.names import NO_NODE, Epoch, Offset
from tests.unit.metadata.test_eligible_replicas import FIRST, ONE, THREE, TWO, Cluster

WHOLE = LogEnd(Epoch(4), Offset(100))
TORN = LogEnd(Epoch(4), Offset(90))


@pytest.fixture
def outage():
    """One led, all three were in sync, and all have crashed."""
    cluster = Cluster(ONE, TWO, THREE)
    cluster.fence(ONE, TWO, THREE)
    return cluster


def elect(cluster, ends, *, is_overdue=False):
    decision = elect_longest(cluster.image, {FIRST: ends}, overdue={FIRST} if is_overdue else ())
    return cluster.decide(decision)


def test_nobody_leads_by_being_the_first_that_is_back(outage):
    outage.start(ONE)
    assert outage.partition.leader == NO_NODE
    outage.start(TWO)
    outage.start(THREE)
    assert outage.partition.leader == NO_NODE
    assert replicas_to_compare(outage.image, FIRST) == (TWO, THREE), "the last two who could commit anything"


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({TWO: TORN, THREE: WHOLE}, THREE),
        ({TWO: WHOLE, THREE: TORN}, TWO),
        ({TWO: WHOLE, THREE: WHOLE}, TWO),
        ({TWO: LogEnd(Epoch(3), Offset(500)), THREE: WHOLE}, THREE),
        ({TWO: None, THREE: TORN}, THREE),
    ],
    ids=["torn first", "torn last", "alike", "an earlier epoch is worth less than any record", "damaged"],
)
def test_the_longest_log_leads(outage, ends, leader):
    outage.start(TWO)
    outage.start(THREE)
    (elected,) = elect(outage, ends)
    assert elected.leader == leader
    assert outage.partition.leader == leader
    assert outage.partition.isr == (leader,), "the others have to show first what they have"


def test_who_is_away_is_waited_for_until_it_is_overdue(outage):
    outage.start(TWO)
    assert elect(outage, {TWO: TORN}) == []
    assert outage.partition.leader == NO_NODE
    (elected,) = elect(outage, {TWO: TORN}, is_overdue=True)
    assert elected.leader == TWO


def test_who_has_not_opened_its_log_yet_is_waited_for(outage):
    outage.start(TWO)
    outage.start(THREE)
    assert elect(outage, {TWO: TORN}) == []


def test_who_answered_and_has_gone_since_is_waited_for(outage):
    outage.start(TWO)
    outage.start(THREE)
    outage.fence(THREE)
    assert elect(outage, {TWO: TORN, THREE: WHOLE}) == []


def test_nobody_is_elected_whose_log_is_damaged_however_long_it_takes(outage):
    outage.start(TWO)
    outage.start(THREE)
    assert elect(outage, {TWO: None, THREE: None}, is_overdue=True) == []


def test_who_was_in_sync_in_this_life_leads_at_once():
    """One is left alone and crashes. Two and Three never did: whatever they have is all that there is."""
    cluster = Cluster(ONE, TWO, THREE)
    cluster.in_sync(ONE)
    cluster.fence(ONE)
    cluster.register(TWO)
    cluster.let_in(TWO)
    ends = {TWO: WHOLE, THREE: LogEnd(Epoch(4), Offset(95), was_in_sync=True)}
    (elected,) = elect(cluster, ends)
    assert elected.leader == THREE


def test_among_equals_one_that_is_to_stay_leads(outage):
    outage.start(TWO)
    outage.start(THREE)
    outage.decide(drain_node(outage.image, TWO))
    (elected,) = elect(outage, {TWO: WHOLE, THREE: WHOLE})
    assert elected.leader == THREE


def test_it_is_told_whose_log_was_shorter(outage):
    outage.start(TWO)
    outage.start(THREE)
    (elected,) = elect(outage, {TWO: TORN, THREE: WHOLE})
    assert elected.shorter == (TWO,)


def test_the_only_one_that_may_be_elected_need_not_be_compared():
    cluster = Cluster(ONE, TWO, THREE, min_insync_replicas="1")
    cluster.in_sync(ONE)
    cluster.fence(ONE)
    cluster.start(ONE)
    assert cluster.partition.leader == ONE


def test_a_partition_that_is_led_meanwhile_stays_as_it_is(outage):
    outage.start(TWO)
    outage.start(THREE)
    elect(outage, {TWO: WHOLE, THREE: WHOLE})
    assert elect(outage, {TWO: WHOLE, THREE: LogEnd(Epoch(9), Offset(900))}) == []


def test_all_who_are_gone_at_the_same_time_may_be_elected_however_few_must_be_in_sync():
    """One after the other, it would look as if the last had gone on alone."""
    cluster = Cluster(ONE, TWO, THREE, min_insync_replicas="1")
    cluster.decide(fence_node(cluster.image, ONE, TWO, THREE))
    assert cluster.state == (NO_NODE, (ONE,), (TWO, THREE))
    for node_id in (TWO, THREE, ONE):
        cluster.start(node_id)
    assert set(replicas_to_compare(cluster.image, FIRST)) == {ONE, TWO, THREE}
    (elected,) = elect(cluster, {ONE: TORN, TWO: TORN, THREE: WHOLE})
    assert elected.leader == THREE


def test_who_is_left_leads_when_others_are_gone_at_the_same_time():
    cluster = Cluster(ONE, TWO, THREE)
    cluster.decide(fence_node(cluster.image, ONE, THREE))
    assert cluster.state == (TWO, (TWO,), (ONE, THREE))
