"""What must hold of the metadata log between any two turns of the loop (I8 and I9 of the cluster's invariants).

One leader, and one vote of each node, in a term; logs that agree wherever they share an entry; a past that nobody
changes; and one image for each place in it.

What a node only believes may be forgotten in a crash. So a vote counts here once it has left the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from headrace.raft.messages import RequestVote, VoteAnswer
from headrace.raft.ready import Role
from headrace.simulation.history.history import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import Entry, Term
    from headrace.raft.membership import ReplicaKey
    from headrace.raft.messages import OutboundMessage
    from headrace.raft.view import RaftView
    from headrace.simulation.history.history import History


@dataclass(slots=True)
class _View:
    """A node's quorum, and how it was seen last."""

    quorum: Quorum
    standing: tuple[object, ...] = ()
    checked: tuple[RaftView, Offset] | None = None
    """Up to where its entries were decided when they were last looked at: no need to look at those again."""


class _Content(NamedTuple):
    """An entry, and what it follows. If all logs agree on this for each entry, they agree on everything before it."""

    end: Offset
    digest: int
    previous_term: Term | None


class RaftWatch:
    def __init__(self, history: History) -> None:
        self._history = history
        self._views: dict[NodeId, _View] = {}
        self._leaders: dict[Term, NodeId] = {}
        self._votes: dict[tuple[ReplicaKey, Term], NodeId] = {}
        self._contents: dict[tuple[Offset, Term], _Content] = {}
        self._decided: dict[Offset, Term] = {}
        """By where an entry begins, the term of the one that is decided."""
        self._images: dict[Offset, ClusterImage] = {}
        self.on_image: Callable[[ClusterImage], None] = lambda _: None
        """Called with every image that any node has, once."""
        self.on_newest: Callable[[ClusterImage], None] = lambda _: None
        """Called with what was decided last, as soon as any node has applied it."""
        self._newest_end = 0

    def look(self, node_id: NodeId, quorum: Quorum) -> None:
        view = self._views.get(node_id)
        if view is None or view.quorum is not quorum:
            self._overhear(quorum)
            view = self._views[node_id] = _View(quorum)
        standing = _standing_of(view.quorum)
        if standing != view.standing:
            view.standing = standing
            self._look_at(node_id, view)

    def _look_at(self, node_id: NodeId, view: _View) -> None:
        quorum, raft = view.quorum, view.quorum.raft
        if raft.role is Role.LEADER:
            self._check_leader(node_id, raft.term)
        checked_end = view.checked[1] if view.checked is not None and view.checked[0] is raft else raft.log.start
        view.checked = raft, raft.log.commit_end
        self._check_entries(node_id, raft, checked_end)
        if quorum.applied_end > 0:
            self._check_image(node_id, quorum.applied_end, quorum.image)

    # Elections

    def _overhear(self, quorum: Quorum) -> None:
        send = quorum.send

        def overheard(outbound: OutboundMessage) -> None:
            match outbound.message:
                case VoteAnswer(source, term, is_granted=True, is_pre_vote=False):
                    self._voted(source, term, outbound.target)
                case RequestVote(source, term, is_pre_vote=False):
                    self._voted(source, term, source.node_id)
                case _:
                    pass
            send(outbound)

        quorum.send = overheard

    def _voted(self, voter: ReplicaKey, term: Term, candidate: NodeId) -> None:
        """With another disk it is another voter, whose vote must not count; that shows if two lead."""
        first = self._votes.setdefault((voter, term), candidate)
        if first != candidate:
            self._report(Kind.TWO_VOTES, f"node {voter.node_id} voted for {first} and for {candidate} in term {term}")

    def _check_leader(self, node_id: NodeId, term: Term) -> None:
        first = self._leaders.setdefault(term, node_id)
        if first != node_id:
            self._report(Kind.TWO_LEADERS, f"nodes {first} and {node_id} lead the metadata log in term {term}")

    # The log

    def _check_entries(self, node_id: NodeId, raft: RaftView, since: Offset) -> None:
        log = raft.log
        since = max(since, log.start)
        previous_term = log.term_before(since)
        for entry in log.entries_from(since, 1 << 62):
            self._check_content(node_id, entry, previous_term)
            if entry.end <= log.commit_end:
                decided = self._decided.setdefault(entry.base, entry.term)
                if decided != entry.term:
                    detail = f"at {entry.base} term {decided} was decided, and on node {node_id} term {entry.term}"
                    self._report(Kind.METADATA_FORKED, detail)
            previous_term = entry.term

    def _check_content(self, node_id: NodeId, entry: Entry, previous_term: Term | None) -> None:
        payload = entry.payload if isinstance(entry.payload, bytes) else str(entry.payload).encode()
        content = _Content(entry.end, crc32(payload), previous_term)
        first = self._contents.setdefault((entry.base, entry.term), content)
        if first != content:
            detail = f"node {node_id} has another entry at {entry.base} of term {entry.term}: {content}, not {first}"
            self._report(Kind.METADATA_FORKED, detail)

    def _check_image(self, node_id: NodeId, end: Offset, image: ClusterImage) -> None:
        first = self._images.setdefault(end, image)
        if first is image:
            self.on_image(image)
        elif first != image:
            self._report(Kind.METADATA_FORKED, f"node {node_id} makes another image of what was decided up to {end}")
        if end > self._newest_end:
            self._newest_end = end
            self.on_newest(image)

    def _report(self, kind: Kind, detail: str) -> None:
        self._history.report(kind, None, -1, detail)


def _standing_of(quorum: Quorum) -> tuple[object, ...]:
    """All that the checks go by: if none of it has changed, there is nothing new to see."""
    raft = quorum._raft
    log = raft._log
    return (  # an `attrgetter` would take twice as long
        quorum.applied_end,
        raft,
        raft._state.role,
        raft._hard_state.term,
        log,
        log.start,
        log._start_term,
        log._entries[-1] if log._entries else None,
        log.commit_end,
    )
