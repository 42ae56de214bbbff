from __future__ import annotations

import pytest

from headrace.metadata.commands.node_commands import drain_node, fence_node, register_node, undrain_node, unfence_node
from headrace.metadata.commands.partition_commands import (
    InSyncMember,
    IsrChange,
    Reassignment,
    change_in_sync,
    elect_leaders,
    give_up_replica,
    plan_rebalance,
    reassign,
)
from headrace.metadata.commands.topic_commands import NewTopic
from headrace.metadata.elections.partition_leaders import Election, ElectionKind, LeaderBalance
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.records import PartitionCreated, TopicCreated
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, Epoch, LogId, NodeId
from tests.unit.metadata.small_cluster import cluster_of, numbered_topic_id, refused, swept, with_topics

ONE, TWO, THREE, FOUR = (NodeId(number) for number in range(1, 5))
TOPIC = numbered_topic_id(1)
FIRST = LogId(TOPIC, 0)
NOWHERE = LogId(numbered_topic_id(7), 0)


@pytest.fixture
def image():
    """Four nodes; one partition, led by One and in sync with Two and Three."""
    replicas = (ONE, TWO, THREE)
    return cluster_of(1, 2, 3, 4).apply_all(
        [TopicCreated(TOPIC, "a"), PartitionCreated(TOPIC, 0, replicas, replicas, ONE, Epoch(0), 0)]
    )


def partition_of(image):
    return image.partition(*FIRST)


def shrunk(image, *isr, leader=ONE, leader_epoch=None, partition_epoch=None, epochs=None):
    """The decision about a leader's wish for this in-sync set."""
    partition = partition_of(image)
    members = tuple(
        InSyncMember(node_id, (epochs or {}).get(node_id, image.nodes[node_id].broker_epoch)) for node_id in isr
    )
    change = IsrChange(
        FIRST,
        partition.leader_epoch if leader_epoch is None else leader_epoch,
        partition.partition_epoch if partition_epoch is None else partition_epoch,
        members,
    )
    return change_in_sync(image, leader, image.nodes[leader].broker_epoch, [change])


def with_isr(image, *isr):
    return image.apply_all(shrunk(image, *isr).records)


def test_a_leader_changes_its_in_sync_set_without_a_new_leader_epoch(image):
    decision = shrunk(image, ONE, TWO)
    after = partition_of(image.apply_all(decision.records))
    assert decision.response[0].result == after
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((ONE, TWO), ONE, 0, 1)


def test_a_wish_that_comes_twice_changes_nothing_the_second_time(image):
    after = with_isr(image, ONE, TWO)
    assert shrunk(after, ONE, TWO, partition_epoch=0).records == ()


def test_a_wish_for_the_same_set_rules_out_all_earlier_ones(image):
    """A leader that has heard nothing of a wish makes sure that it is not heard any more either."""
    after = with_isr(image, ONE, TWO, THREE)
    assert (partition_of(after).isr, partition_of(after).partition_epoch) == ((ONE, TWO, THREE), 1)
    late = shrunk(after, ONE, TWO, partition_epoch=0)
    assert late.response[0].result.code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"leader": TWO}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 4}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_a_wish_from_another_time_is_refused(image, wish, code):
    decision = shrunk(image, ONE, TWO, **wish)
    assert decision.records == ()
    assert refused(decision.response[0])[0] is code


@pytest.mark.parametrize("isr", [(TWO, THREE), (ONE, FOUR), (ONE, TWO, TWO)])
def test_only_replicas_are_in_sync_each_once_and_the_leader_always_is(image, isr):
    assert refused(shrunk(image, *isr).response[0])[0] is ErrorCode.INVALID_REQUEST


def test_an_empty_disk_cannot_enter_by_its_name(image):
    """Two was seen in sync, died, and is back with another life before the leader's wish arrives."""
    image = with_isr(image, ONE, THREE)
    old = image.nodes[TWO].broker_epoch
    registered = register_node(image, TWO, b"second life")
    image = image.apply_all(registered.records)
    assert refused(shrunk(image, ONE, TWO, THREE).response[0])[0] is ErrorCode.INELIGIBLE_REPLICA, "fenced"
    image = image.apply_all(unfence_node(image, TWO, registered.response).records)
    assert refused(shrunk(image, ONE, TWO, THREE, epochs={TWO: old}).response[0])[0] is ErrorCode.INELIGIBLE_REPLICA
    assert shrunk(image, ONE, TWO, THREE).records != ()


def test_a_leader_of_an_earlier_life_is_not_heard(image):
    with pytest.raises(Refusal) as refusal:
        change_in_sync(image, ONE, 77, [])
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_preferred_and_unclean_elections(image):
    def elected(image, kind):
        decision = elect_leaders(image, [Election(FIRST, kind)])
        return decision.response[0], image.apply_all(decision.records)

    assert refused(elected(image, ElectionKind.PREFERRED)[0])[0] is ErrorCode.ELECTION_NOT_NEEDED
    image = image.apply_all(fence_node(image, ONE).records)
    assert partition_of(image).leader == TWO
    assert refused(elected(image, ElectionKind.PREFERRED)[0])[0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert refused(elected(image, ElectionKind.UNCLEAN)[0])[0] is ErrorCode.ELECTION_NOT_NEEDED
    image = image.apply_all(shrunk(image, TWO, leader=TWO).records)
    image = image.apply_all(fence_node(image, TWO).records)
    assert not partition_of(image).has_leader
    _, image = elected(image, ElectionKind.UNCLEAN)
    assert (partition_of(image).leader, partition_of(image).isr) == (THREE, (THREE,)), "what Two had more is given up"
    image = image.apply_all(fence_node(image, THREE).records)
    assert refused(elected(image, ElectionKind.UNCLEAN)[0])[0] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    missing = elect_leaders(image, [Election(NOWHERE, ElectionKind.UNCLEAN)]).response[0]
    assert refused(missing)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def why_not_preferred(image):
    (outcome,) = elect_leaders(image, [Election(FIRST, ElectionKind.PREFERRED)]).response
    return refused(outcome)[1]


def test_why_the_preferred_replica_does_not_lead(image):
    away = image.apply_all(fence_node(image, ONE).records)
    assert why_not_preferred(away) == "node 1 is away; node 2 leads meanwhile"
    epoch = away.nodes[ONE].broker_epoch
    back = away.apply_all(unfence_node(away, ONE, epoch).records)
    assert why_not_preferred(back) == "node 1 is not in sync yet; it leads once it is"
    drained = image.apply_all(drain_node(image, ONE).records)
    assert why_not_preferred(drained) == "node 1 is being drained"


def test_who_has_the_records_of_a_partition_that_nobody_leads(image):
    image = with_isr(image, ONE, TWO)
    for gone in (ONE, TWO):
        image = image.apply_all(fence_node(image, gone).records)
    assert why_not_preferred(image) == (
        "nobody leads: only node 2 is known to have everything. Start it; --unclean loses what nobody else has"
    ), "node 1 may have it too, and nobody can tell"


def test_that_nobody_has_the_records_of_a_partition_any_more():
    """The only copy was on a disk that was replaced. Its node is there, and leads nothing by itself."""
    image = EMPTY_IMAGE
    for disk in (b"old", b"new"):
        registered = register_node(image, ONE, disk + b" life", directory=disk)
        image = image.apply_all(registered.records)
        image = image.apply_all(unfence_node(image, ONE, registered.response).records)
        if disk == b"old":
            created = [TopicCreated(TOPIC, "a"), PartitionCreated(TOPIC, 0, (ONE,), (ONE,), ONE, Epoch(0), 0)]
            image = image.apply_all(created)
            image = image.apply_all(fence_node(image, ONE).records)
            assert not partition_of(image).is_lost, "it is only away"
    assert partition_of(image).is_lost
    assert "no copy with the records is left. --unclean" in why_not_preferred(image)


def returned(image):
    balance = LeaderBalance(0.1)
    swept(image, balance.count)
    return swept(image, balance.give_back)


def test_leaders_return_to_where_they_are_preferred(image):
    image = image.apply_all(drain_node(image, ONE).records)
    assert partition_of(image).leader == TWO
    assert returned(image).response == 0, "a draining node is to lead nothing"
    image = image.apply_all(undrain_node(image, ONE).records)
    decision = returned(image)
    assert decision.response == 1
    assert partition_of(image.apply_all(decision.records)).leader == ONE


def moving(image, *replicas):
    decision = reassign(image, [Reassignment(FIRST, replicas or None)])
    assert not isinstance(decision.response[0].result, Refusal), decision.response[0].result
    return image.apply_all(decision.records)


def test_replicas_move_when_the_new_ones_are_in_sync(image):
    image = moving(image, FOUR, TWO)
    partition = partition_of(image)
    assert (partition.replicas, partition.adding, partition.removing) == (
        (FOUR, TWO, ONE, THREE),
        (FOUR,),
        (ONE, THREE),
    )
    assert (partition.leader, partition.isr) == (ONE, (ONE, TWO, THREE))
    image = with_isr(image, ONE, TWO, THREE, FOUR)
    partition = partition_of(image)
    assert (partition.replicas, partition.isr, partition.leader) == ((FOUR, TWO), (TWO, FOUR), FOUR)
    assert not partition.is_moving


def test_another_move_does_not_leave_a_leader_behind_that_is_no_replica(image):
    """Three leads as one who is being added; then the replicas are to go elsewhere."""
    image = with_isr(moving(with_isr(moving(image, ONE, TWO), ONE, TWO), THREE, FOUR), ONE, TWO, THREE)
    image = image.apply_all(fence_node(image, ONE).records)
    image = image.apply_all(elect_leaders(image, [Election(FIRST, ElectionKind.PREFERRED)]).records)
    partition = partition_of(image)
    assert (partition.leader, partition.isr, partition.adding) == (THREE, (TWO, THREE), (THREE, FOUR))
    partition = partition_of(moving(image, FOUR, TWO))
    assert (partition.leader, partition.isr, partition.replicas) == (TWO, (TWO,), (FOUR, TWO, ONE))
    image = image.apply_all(fence_node(image, TWO).records)
    assert partition_of(image).isr == (THREE,), "only it has what was acknowledged since"
    outcome = reassign(image, [Reassignment(FIRST, (ONE, TWO))]).response[0]
    assert refused(outcome) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "only replicas that are being moved to are in sync with a-0; let the move end",
    )


def test_an_unclean_election_prefers_replicas_that_may_have_something(image):
    image = with_isr(moving(with_isr(moving(image, ONE, TWO), ONE, TWO), THREE, FOUR), ONE)
    image = image.apply_all(fence_node(image, ONE).records)
    assert not partition_of(image).has_leader
    image = image.apply_all(elect_leaders(image, [Election(FIRST, ElectionKind.UNCLEAN)]).records)
    assert partition_of(image).leader == TWO, "Three and Four are being filled"


def test_a_move_can_be_stopped_and_asked_for_twice(image):
    started = moving(image, ONE, TWO, FOUR)
    assert moving(started, ONE, TWO, FOUR).partition(*FIRST).adding == (FOUR,)
    stopped = partition_of(moving(started))
    assert (stopped.replicas, stopped.isr, stopped.is_moving) == ((ONE, TWO, THREE), (ONE, TWO, THREE), False)
    nothing = reassign(image, [Reassignment(FIRST, None)]).response[0]
    assert refused(nothing) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the replicas of a-0 are not being moved")


@pytest.mark.parametrize(
    ("log_id", "why"), [(LogId(TOPIC, 77), "there is no partition a-77"), (NOWHERE, "there is no such topic")]
)
def test_what_does_not_exist_is_called_by_the_name_that_people_know(image, log_id, why):
    expected = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    assert refused(reassign(image, [Reassignment(log_id, (ONE,))]).response[0]) == expected
    assert refused(elect_leaders(image, [Election(log_id, ElectionKind.PREFERRED)]).response[0]) == expected


def test_a_move_that_is_stopped_makes_nobody_lead_who_is_away(image):
    image = moving(with_isr(image, ONE), FOUR)
    image = image.apply_all(fence_node(image, ONE).records)
    stopped = partition_of(moving(image))
    assert (stopped.leader, stopped.isr) == (NO_NODE, (ONE,))


def test_a_new_order_or_fewer_replicas_need_no_move(image):
    assert partition_of(moving(image, ONE, THREE, TWO)).replicas == (ONE, THREE, TWO)
    assert reassign(image, [Reassignment(FIRST, (ONE, TWO, THREE))]).records == ()
    fewer = partition_of(moving(image, ONE, TWO))
    assert (fewer.replicas, fewer.isr, fewer.is_moving) == ((ONE, TWO), (ONE, TWO), False)


def test_who_gives_up_the_leader_gives_it_to_one_who_stays(image):
    left = partition_of(moving(image, TWO))
    assert (left.leader, left.replicas, left.isr, left.is_moving) == (TWO, (TWO,), (TWO,), False)
    away = image.apply_all(drain_node(image, TWO).records)
    assert partition_of(moving(away, TWO)).is_moving  # nobody of those who stay may lead yet


def test_a_move_that_is_changed_ends_at_once_if_all_are_in_sync(image):
    image = moving(image, FOUR, NodeId(3), TWO)
    image = with_isr(image, ONE, TWO, THREE)
    ended = partition_of(moving(image, THREE, TWO))
    assert (ended.leader, ended.replicas, ended.is_moving) == (THREE, (THREE, TWO), False)


@pytest.mark.parametrize("replicas", [(), (ONE, ONE), (ONE, NodeId(9))])
def test_where_replicas_cannot_be(image, replicas):
    outcome = reassign(image, [Reassignment(FIRST, replicas)]).response[0]
    assert refused(outcome)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_while_replicas_move_one_that_is_to_go_may_lead_if_nobody_else_can(image):
    image = moving(image, FOUR)
    image = image.apply_all(fence_node(image, ONE).records)
    assert partition_of(image).leader == TWO
    for node_id in (TWO, THREE):
        image = image.apply_all(fence_node(image, node_id).records)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_NODE, (THREE,))


def test_the_plan_for_an_added_node_is_its_share(image):
    image = with_topics(cluster_of(1, 2, 3), NewTopic("b", 40, 3))
    assert plan_rebalance(image) == []
    registered = register_node(image, FOUR, b"first life")
    image = image.apply_all(registered.records)
    assert plan_rebalance(image) == [], "it is fenced"
    image = image.apply_all(unfence_node(image, FOUR, registered.response).records)
    moves = plan_rebalance(image)
    assert len(moves) == 30
    assert all(FOUR in move.replicas for move in moves)


# ---- damaged replicas


def given_up(image, node_id, log_id=FIRST):
    return image.apply_all(
        give_up_replica(image, node_id, image.nodes[node_id].broker_epoch, log_id, is_lost=True).records
    )


def test_a_damaged_follower_leaves_and_the_leader_begins_anew(image):
    before = partition_of(image)
    after = partition_of(given_up(image, TWO))
    assert (after.leader, after.isr) == (ONE, (ONE, THREE))
    assert after.leader_epoch == before.leader_epoch + 1


def test_a_damaged_leader_is_followed_by_one_in_sync(image):
    image = with_isr(image, ONE, THREE)
    after = partition_of(given_up(image, ONE))
    assert (after.leader, after.isr) == (THREE, (THREE,))


def test_a_damaged_replica_that_is_out_of_sync_still_begins_an_epoch(image):
    image = with_isr(image, ONE, THREE)
    after = partition_of(given_up(image, TWO))
    assert (after.leader, after.isr) == (ONE, (ONE, THREE))
    assert after.leader_epoch == partition_of(image).leader_epoch + 1


def test_the_last_one_in_sync_cannot_be_given_up(image):
    alone = with_isr(image, ONE)
    with pytest.raises(Refusal) as refusal:
        given_up(alone, ONE)
    assert refusal.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_only_a_living_node_gives_up_what_it_has(image):
    with pytest.raises(Refusal) as refusal:
        give_up_replica(image, ONE, image.nodes[ONE].broker_epoch + 1, FIRST, is_lost=True)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(Refusal) as refusal:
        given_up(image, FOUR)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(Refusal) as refusal:
        given_up(image, ONE, NOWHERE)
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
