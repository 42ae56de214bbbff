"""Who should vote: one step from the membership as it is to the one that is wanted.

Few voters decide fast, and an odd number wastes none: four survive the loss of no more nodes than three do. So the aim
is three, and five only if the cluster was founded with four or five. Two voters are worse than one, because they decide
nothing when either is away: a lone voter takes others in only when there are two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.raft.membership import ReplicaKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.model.names import NodeId
    from headrace.raft.membership import Membership

VOTERS_WANTED: Final = 3  # one may be lost
VOTERS_MAX: Final = 5  # two may be lost; with more, every decision waits for more disks


class AnsweringNode(NamedTuple):
    """What the leader knows of a node that answers it."""

    directory: bytes
    """The disk that it answers with now."""
    has_everything: bool
    """Its log holds all that is decided."""
    may_vote: bool = True
    """It is here to stay, as far as anybody knows."""


def next_membership(
    now: Membership, registered: Iterable[NodeId], answering: Mapping[NodeId, AnsweringNode]
) -> Membership | None:
    """The next change of one node, the most urgent first; None if everything is as it should be."""
    return _with_newcomer(now, registered) or _without_lost_disk(now, answering) or _with_promoted(now, answering)


def _with_newcomer(now: Membership, registered: Iterable[NodeId]) -> Membership | None:
    """Who is registered gets the log."""
    newcomer = next((node_id for node_id in sorted(registered) if node_id not in now.everybody), None)
    return None if newcomer is None else now.with_learner(newcomer)


def _without_lost_disk(now: Membership, answering: Mapping[NodeId, AnsweringNode]) -> Membership | None:
    """A voter that answers with another disk has forgotten its votes. It begins again as a learner."""
    for voter in now.voters:
        node = answering.get(voter.node_id)
        if node is not None and voter.directory not in {None, node.directory} and len(now.voters) > 1:
            return now.demoting(voter.node_id)
    return None


def _with_promoted(now: Membership, answering: Mapping[NodeId, AnsweringNode]) -> Membership | None:
    ready = [
        ReplicaKey(node_id, answering[node_id].directory)
        for node_id in sorted(now.learners)
        if node_id in answering and answering[node_id].has_everything and answering[node_id].may_vote
    ]
    if len(now.voters) < wanted_voters(len(now.voters), len(ready)):
        return now.with_voter(ready[0])
    return None


def wanted_voters(voter_count: int, ready_count: int) -> int:
    """How many voters there should be, if so many learners are ready to become one."""
    if voter_count < VOTERS_WANTED:
        return VOTERS_WANTED if voter_count + ready_count >= VOTERS_WANTED else voter_count
    is_even = voter_count % 2 == 0
    return voter_count + 1 if is_even and ready_count and voter_count < VOTERS_MAX else voter_count
