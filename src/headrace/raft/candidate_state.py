"""The candidate: it counts the votes that it is given, first in a pre-vote, then in the election."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.raft.ready import Role

if TYPE_CHECKING:
    from headrace.model.names import NodeId
    from headrace.raft.log import Term
    from headrace.raft.membership import Membership, ReplicaKey
    from headrace.raft.messages import VoteAnswer


class CandidateState:
    role: Final = Role.CANDIDATE
    leader: Final = None

    def __init__(self, term: Term, *, is_pre_vote: bool) -> None:
        """`term` is the one to be elected for. A pre-vote only asks about it, so the node itself is not in it yet."""
        self.term = term
        self.is_pre_vote = is_pre_vote
        self._granted: set[NodeId] = set()

    def is_given(self, answer: VoteAnswer) -> bool:
        """Whether this is a vote for this candidacy."""
        return answer.is_granted and answer.is_pre_vote == self.is_pre_vote and answer.term == self.term

    def count(self, voter: ReplicaKey, membership: Membership) -> bool:
        """Returns whether it has a majority."""
        if membership.is_voter(voter):
            self._granted.add(voter.node_id)
        return membership.is_majority(self._granted)
