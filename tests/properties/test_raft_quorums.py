"""Majorities against brute force: every set of voters that could decide is written out."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.names import NodeId, Offset
from headrace.raft.membership import Membership, ReplicaKey, Voter

node_ids = st.integers(1, 7).map(NodeId)
voter_sets = st.sets(node_ids, min_size=1)


def membership_of(ids: set[NodeId]) -> Membership:
    return Membership(tuple(Voter(node_id, b"disk-%d" % node_id) for node_id in sorted(ids)))


def deciding_sets(membership: Membership) -> list[set[NodeId]]:
    voters = membership.voter_ids
    return [
        set(some)
        for size in range(len(voters) + 1)
        for some in combinations(voters, size)
        if membership.is_majority(some)
    ]


@given(ids=voter_sets)
def test_two_majorities_share_a_voter(ids: set[NodeId]) -> None:
    deciding = deciding_sets(membership_of(ids))
    assert deciding, "all together can decide"
    assert all(one & other for one in deciding for other in deciding)


@given(before=voter_sets, after=voter_sets)
def test_a_change_is_allowed_if_all_majorities_before_and_after_share_a_voter(
    before: set[NodeId], after: set[NodeId]
) -> None:
    one, other = membership_of(before), membership_of(after)
    if one.may_become(other):
        assert all(some & others for some in deciding_sets(one) for others in deciding_sets(other))


@given(ids=st.sets(node_ids, min_size=2), node_id=node_ids)
def test_every_change_of_one_node_is_allowed(ids: set[NodeId], node_id: NodeId) -> None:
    membership = membership_of(ids)
    changes = [membership.without(node_id), membership.demoting(node_id), membership.with_learner(node_id)]
    if node_id not in ids:
        changes.append(membership.with_voter(ReplicaKey(node_id, b"new")))
    assert all(membership.may_become(change) for change in changes)


@given(ids=st.sets(node_ids, min_size=2), node_id=node_ids)
def test_a_voter_cannot_exchange_its_disk_in_one_step(ids: set[NodeId], node_id: NodeId) -> None:
    membership = membership_of({*ids, node_id})
    exchanged = membership.without(node_id).with_voter(ReplicaKey(node_id, b"another"))
    assert not membership.may_become(exchanged)


@given(ids=voter_sets, reached=st.dictionaries(node_ids, st.integers(0, 9).map(Offset)))
def test_agreed_is_the_furthest_place_that_a_majority_has_reached(
    ids: set[NodeId], reached: dict[NodeId, Offset]
) -> None:
    membership = membership_of(ids)
    expected = max(
        min(reached.get(node_id, Offset(0)) for node_id in deciding) for deciding in deciding_sets(membership)
    )
    assert membership.agreed(reached, Offset(0)) == expected


@given(ids=voter_sets)
def test_only_the_known_disk_votes(ids: set[NodeId]) -> None:
    unknown = Membership(tuple(Voter(node_id) for node_id in sorted(ids)))
    known = unknown.knowing([ReplicaKey(node_id, b"disk-%d" % node_id) for node_id in ids])
    assert known == membership_of(ids)
    for node_id in ids:
        assert unknown.is_voter(ReplicaKey(node_id, b"another"))
        assert known.is_voter(ReplicaKey(node_id, b"disk-%d" % node_id))
        assert not known.is_voter(ReplicaKey(node_id, b"another"))
    assert known.knowing([ReplicaKey(node_id, b"another") for node_id in ids]) == known
