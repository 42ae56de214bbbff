"""Who decides, and how many of them it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from headrace.model.names import NodeId

Number = TypeVar("Number", bound=int)


class ReplicaKey(NamedTuple):
    """A node and the disk that it remembers on. The same node with another disk has forgotten whom it voted for."""

    node_id: NodeId
    directory: bytes


class Voter(NamedTuple):
    node_id: NodeId
    directory: bytes | None = None
    """None until the first leader has heard from it: who starts a cluster cannot know the others' disks."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Voters elect and commit. Learners receive everything and count for nothing."""

    voters: tuple[Voter, ...] = ()
    learners: tuple[NodeId, ...] = ()

    def __post_init__(self) -> None:
        everybody = [voter.node_id for voter in self.voters] + list(self.learners)
        assert len(set(everybody)) == len(everybody), f"a node is named twice: {self}"

    @property
    def voter_ids(self) -> tuple[NodeId, ...]:
        return tuple(voter.node_id for voter in self.voters)

    @property
    def everybody(self) -> tuple[NodeId, ...]:
        return (*self.voter_ids, *self.learners)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def is_voter(self, replica: ReplicaKey) -> bool:
        """Whether it may vote: by its name, and with the disk that it is known to have."""
        return any(
            voter.node_id == replica.node_id and voter.directory in {None, replica.directory} for voter in self.voters
        )

    def is_voter_with_any_disk(self, node_id: NodeId) -> bool:
        """Whether it would be believed with an empty disk: nobody has written down yet which one it has."""
        return Voter(node_id, None) in self.voters

    def is_majority(self, node_ids: Collection[NodeId]) -> bool:
        return sum(voter.node_id in node_ids for voter in self.voters) >= self.majority

    def agreed(self, reached: Mapping[NodeId, Number], otherwise: Number) -> Number:
        """The furthest that a majority of voters has reached; those not named are at `otherwise`."""
        ranking = sorted((reached.get(voter.node_id, otherwise) for voter in self.voters), reverse=True)
        return ranking[self.majority - 1] if ranking else otherwise

    def may_become(self, later: Membership) -> bool:
        """Whether no two majorities, of this and of that one, can do without each other: one voter more or less.

        A voter's disk may become known. It cannot be exchanged: the new one has forgotten what the old one promised.
        """
        known = {voter.node_id: voter.directory for voter in self.voters}
        disks_stay = all(
            known.get(voter.node_id) in {None, voter.directory} for voter in later.voters if voter.node_id in known
        )
        return disks_stay and bool(later.voters) and len({*self.voter_ids} ^ {*later.voter_ids}) <= 1

    # Changes of one node each, so that every majority before shares a voter with every majority after.

    def with_learner(self, node_id: NodeId) -> Membership:
        return self if node_id in self.everybody else replace(self, learners=(*self.learners, node_id))

    def with_voter(self, replica: ReplicaKey) -> Membership:
        """A learner becomes a voter."""
        assert replica.node_id not in self.voter_ids, f"{replica.node_id} votes already"
        return Membership(
            tuple(sorted((*self.voters, Voter(*replica)))),
            tuple(learner for learner in self.learners if learner != replica.node_id),
        )

    def without(self, node_id: NodeId) -> Membership:
        return Membership(
            tuple(voter for voter in self.voters if voter.node_id != node_id),
            tuple(learner for learner in self.learners if learner != node_id),
        )

    def demoting(self, node_id: NodeId) -> Membership:
        """A voter becomes a learner: it has another disk, or is about to leave."""
        return self.without(node_id).with_learner(node_id)

    def knowing(self, replicas: Iterable[ReplicaKey]) -> Membership:
        """The same voters; those whose disk was not known yet are tied to it."""
        directories = dict(replicas)
        return replace(
            self,
            voters=tuple(
                voter if voter.directory is not None else Voter(voter.node_id, directories.get(voter.node_id))
                for voter in self.voters
            ),
        )
