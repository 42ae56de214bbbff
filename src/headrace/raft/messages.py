"""What voters say to each other. Every message says from whom, and in which term it was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import Entry, Snapshot, Term
    from headrace.raft.membership import ReplicaKey


@dataclass(frozen=True, slots=True)
class RequestVote:
    """Asks for a vote in `term`. A pre-vote only asks whether it would be given: nobody's term changes by it."""

    source: ReplicaKey
    term: Term
    last_term: Term
    end: Offset
    is_pre_vote: bool
    is_transfer: bool = False
    """The leader itself asked for this election; loyalty to it is no reason to refuse."""


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    source: ReplicaKey
    term: Term
    """Of the election that it answers; if refused, the answerer's own."""
    is_granted: bool
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class AppendEntries:
    """Entries that follow `previous_end`. Without any it is a heartbeat, which also finds out what was lost."""

    source: ReplicaKey
    term: Term
    previous_end: Offset
    previous_term: Term
    entries: tuple[Entry, ...]
    commit_end: Offset
    session: int
    """Which run of replication to this follower; answers of an earlier one say nothing about this one."""
    round: int
    """Echoed by the answer: whoever heard it knew this leader at that time."""


@dataclass(frozen=True, slots=True)
class AppendAnswer:
    """Accepted: the logs agree up to `end`, and that is on the disk. Refused: try from a place that is in both logs."""

    source: ReplicaKey
    term: Term
    is_accepted: bool
    end: Offset
    """If refused, where `hint_term` ends here."""
    hint_term: Term
    """If refused, the latest term here that is not later than the one asked about."""
    asked_end: Offset
    """Where the leader asked whether the logs agree; which of many messages was refused."""
    session: int
    round: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """What the follower lacks is no longer in the leader's log. Answered as AppendEntries is."""

    source: ReplicaKey
    term: Term
    snapshot: Snapshot
    session: int
    round: int


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The leader wants to leave and asks a follower that has everything to stand for election at once."""

    source: ReplicaKey
    term: Term


NO_SESSION: Final = 0
"""Of no run of replication: each leadership counts its own from 1."""

Message = RequestVote | VoteAnswer | AppendEntries | AppendAnswer | InstallSnapshot | TakeOver


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """A message and the node that it goes to."""

    target: NodeId
    message: Message
