"""Who should vote."""

from __future__ import annotations

import pytest

from headrace.model.names import NodeId
from headrace.raft.membership import Membership, ReplicaKey, Voter
from headrace.raft.membership_change import AnsweringNode, next_membership, wanted_voters


def disk(node_id: int, number: int = 1) -> bytes:
    return b"disk %d of %d" % (number, node_id)


def membership(voters: str, learners: str = "") -> Membership:
    return Membership(
        tuple(Voter(NodeId(int(it)), disk(int(it))) for it in voters), tuple(NodeId(int(it)) for it in learners)
    )


def ready(*node_ids: int, **more: bool) -> dict[NodeId, AnsweringNode]:
    return {NodeId(it): AnsweringNode(disk(it), **({"has_everything": True} | more)) for it in node_ids}


def ids(text: str) -> list[NodeId]:
    return [NodeId(int(it)) for it in text]


@pytest.mark.parametrize(
    ("voters", "ready", "wanted"),
    [
        (1, 0, 1),
        (1, 1, 1),  # two voters stop when either does
        (1, 2, 3),
        (1, 9, 3),
        (2, 0, 2),
        (2, 1, 3),
        (3, 5, 3),
        (4, 0, 4),
        (4, 1, 5),
        (5, 3, 5),
        (6, 3, 6),
    ],
)
def test_how_many_voters_there_should_be(voters: int, ready: int, wanted: int) -> None:
    assert wanted_voters(voters, ready) == wanted


def test_whoever_is_registered_gets_the_log() -> None:
    assert next_membership(membership("1"), ids("1"), {}) is None
    assert next_membership(membership("1"), ids("132"), {}) == membership("1", "2")
    assert next_membership(membership("1", "2"), ids("132"), ready(2)) == membership("1", "23")


def test_one_voter_becomes_three_in_two_steps() -> None:
    answering = ready(2, 3)
    two = next_membership(membership("1", "23"), ids("123"), answering)
    assert two == membership("12", "3")
    assert next_membership(two, ids("123"), answering) == membership("123")
    assert next_membership(membership("123"), ids("123"), answering) is None


def test_only_who_has_everything_and_stays_is_promoted() -> None:
    now = membership("12", "34")
    assert next_membership(now, ids("1234"), ready(3, 4, has_everything=False)) is None
    assert next_membership(now, ids("1234"), ready(3, may_vote=False) | ready(4)) == membership("124", "3")


def test_a_voter_with_another_disk_learns_first_and_votes_with_the_new_one() -> None:
    answering = ready(1, 2) | {NodeId(3): AnsweringNode(disk(3, 2), has_everything=False)}
    learning = next_membership(membership("123"), ids("123"), answering)
    assert learning == membership("12", "3")
    assert next_membership(learning, ids("123"), answering) is None
    answering[NodeId(3)] = AnsweringNode(disk(3, 2), has_everything=True)
    assert next_membership(learning, ids("123"), answering) == membership("12").with_voter(
        ReplicaKey(NodeId(3), disk(3, 2))
    )


def test_a_voter_that_is_silent_keeps_its_place() -> None:
    assert next_membership(membership("123", "4"), ids("1234"), ready(2, 4)) is None
