"""What a node wants done.

Messages may go at once: those that promise what is not saved yet are held back until `flushed` is called for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.raft.log import NO_TERM

if TYPE_CHECKING:
    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import Entry, Snapshot, Term
    from headrace.raft.membership import ReplicaKey
    from headrace.raft.messages import OutboundMessage


class Role(Enum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class HardState:
    """What a voter must never forget: its term, and for whom it voted in it."""

    term: Term = NO_TERM
    vote: ReplicaKey | None = None


class SoftState(NamedTuple):
    """What may be forgotten: it is found out again."""

    role: Role
    term: Term
    leader: NodeId | None


@dataclass(frozen=True, slots=True)
class Saving:
    """What must reach the disk, in this order, and after all earlier ones. `flushed` is called with it once it has.

    Several may be flushed at a time. A crash may keep any first part of what was not flushed.
    """

    hard_state: HardState | None
    snapshot: Snapshot | None
    """Takes the place of the whole log, which is gone before anything is appended."""
    truncate_to: Offset | None
    """What lies behind is gone before anything is appended."""
    entries: tuple[Entry, ...]

    @property
    def is_empty(self) -> bool:
        return self.hard_state is None and self.snapshot is None and self.truncate_to is None and not self.entries


@dataclass(frozen=True, slots=True)
class ReadState:
    """A read that was asked for may be answered from a state that includes everything before `end`."""

    token: object
    end: Offset


@dataclass(frozen=True, slots=True)
class Ready:
    saving: Saving
    messages: tuple[OutboundMessage, ...]
    installed: Snapshot | None
    """The state begins anew from here, before `committed` is applied."""
    committed: tuple[Entry, ...]
    """Decided, perhaps by others: possibly not on this node's disk yet."""
    read_states: tuple[ReadState, ...]
    lost_reads: tuple[object, ...]
    """Reads that this node can no longer answer: another one may lead."""
    regressed: tuple[NodeId, ...]
    """Who lacks what it had confirmed to have on its disk. It is given that again, and somebody should hear of it."""
    role: Role
    term: Term
    leader: NodeId | None
