"""Raft's promises, looked at after every event with the eyes of one who sees all nodes and all disks."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from headrace.model.names import NodeId, Offset
from headrace.raft.log import NO_TERM, Entry, Term
from headrace.raft.membership import Membership, ReplicaKey
from headrace.raft.messages import AppendAnswer, InstallSnapshot, OutboundMessage, RequestVote, VoteAnswer
from headrace.raft.ready import HardState, ReadState, Ready, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.unit.raft.raft_disk import RaftDisk
    from tests.unit.raft.raft_world import Host


class Broken(AssertionError):
    """A promise of Raft's was broken."""


def expect(is_kept: bool, *what: object) -> None:
    if not is_kept:
        raise Broken(" ".join(map(str, what)))


class Judge:
    def __init__(self) -> None:
        self.decided_end = Offset(0)
        self._decided: dict[Offset, Entry] = {}
        self._last_decided_term = NO_TERM
        self._states: dict[Offset, bytes] = {Offset(0): b""}
        self._leaders: dict[Term, ReplicaKey] = {}
        self._votes: dict[tuple[ReplicaKey, Term], ReplicaKey] = {}
        self._written: dict[tuple[Offset, Term], tuple[Entry, Term | None]] = {}
        self._reads: dict[object, Offset] = {}

    # ---- one leader per term, who has everything that was decided

    def saw_role(self, host: Host, ready: Ready) -> None:
        if ready.role is not Role.LEADER:
            return
        log = host.node.log
        first = self._leaders.setdefault(ready.term, host.me)
        expect(first == host.me, "two leaders in term", ready.term, first, host.me)
        if ready.term > self._last_decided_term:
            has_it = log.snapshot.end >= self.decided_end or log.has(self.decided_end, self._last_decided_term)
            expect(has_it, "leader", host.me, "of term", ready.term, "lacks what is decided up to", self.decided_end)

    # ---- logs agree

    def saw_saving(self, host: Host, ready: Ready) -> None:
        """Who has the same last entry has the same entry before it, and so on: log matching, entry by entry."""
        log = host.node.log
        for entry in ready.saving.entries:
            now = (entry, log.term_before(entry.base))
            first = self._written.setdefault((entry.end, entry.term), now)
            expect(first == now, "two logs differ before the same entry:", first, now)

    # ---- nothing is said before it is safe, and no vote given twice

    def saw_message(self, disk: RaftDisk, outbound: OutboundMessage) -> None:
        message = outbound.message
        if isinstance(message, (RequestVote, VoteAnswer)) and message.is_pre_vote:
            return
        expect(message.term <= disk.hard_state.term, "said in a term that may be forgotten:", message, disk.hard_state)
        is_latest = message.term == disk.hard_state.term
        match message:
            case RequestVote():
                self._voted(message.source, message.term, message.source.node_id, disk.hard_state)
            case VoteAnswer() if message.is_granted:
                self._voted(message.source, message.term, outbound.target, disk.hard_state)
            case AppendAnswer() if message.is_accepted and is_latest:
                expect(disk.end >= message.end, "promised up to", message.end, "but flushed is", disk.end)
            case InstallSnapshot():
                expect(self._states[message.snapshot.end] == message.snapshot.payload, "a wrong snapshot")

    def _voted(self, voter: ReplicaKey, term: Term, candidate: NodeId, hard_state: HardState) -> None:
        if hard_state.term == term:
            is_saved = hard_state.vote is not None and hard_state.vote.node_id == candidate
            expect(is_saved, voter, "says it voted for", candidate, "but may forget it:", hard_state)
        first = self._votes.setdefault((voter, term), ReplicaKey(candidate, b""))
        expect(first.node_id == candidate, voter, "voted twice in term", term)

    # ---- what is decided stays decided, everywhere the same

    def saw_committed(self, host: Host, entries: Iterable[Entry], disks: dict[ReplicaKey, RaftDisk]) -> None:
        for entry in entries:
            first = self._decided.setdefault(entry.end, entry)
            expect(first == entry, "decided twice:", first, entry)
            if entry.end > self.decided_end:
                self.decided_end, self._last_decided_term = entry.end, entry.term
                self._is_on_majority(host.node.membership, entry, disks)
            host.state = state_after(host.state, entry)
            self._same_state(entry.end, host.state)

    def _is_on_majority(self, membership: Membership, entry: Entry, disks: dict[ReplicaKey, RaftDisk]) -> None:
        holders = {
            replica.node_id
            for replica, disk in disks.items()
            if membership.is_voter(replica) and disk.holds(entry.end, entry.term)
        }
        expect(membership.is_majority(holders), entry, "is decided, but only flushed by", holders, "of", membership)

    def saw_installed(self, host: Host, end: Offset, state: bytes) -> None:
        host.state = state
        self._same_state(end, state)

    def _same_state(self, end: Offset, state: bytes) -> None:
        expect(self._states.setdefault(end, state) == state, "states differ at", end)

    # ---- reads

    def asked_read(self, token: object) -> None:
        self._reads[token] = self.decided_end

    def saw_readable(self, read_state: ReadState) -> None:
        decided_end = self._reads.pop(read_state.token)
        expect(read_state.end >= decided_end, "read up to", read_state.end, "though decided before was", decided_end)

    def lost_read(self, token: object) -> None:
        del self._reads[token]

    # ---- what each node believes of itself

    def saw_node(self, host: Host) -> None:
        log = host.node.log
        expect(log.commit_end >= host.commit_end, "what is committed shrank on", host.me)
        host.commit_end = log.commit_end
        expect(log.commit_end <= log.end, "committed beyond the log on", host.me)
        term = log.term_before(log.flushed_end)
        is_flushed = log.flushed_end <= log.start or (term is not None and host.disk.holds(log.flushed_end, term))
        expect(is_flushed, host.me, "believes to have flushed", log.flushed_end, "but has", host.disk.end)


def state_after(state: bytes, entry: Entry) -> bytes:
    """A state machine that remembers everything, in sixteen bytes."""
    return blake2b(state + repr(entry).encode(), digest_size=16).digest()
