"""The follower: it takes over its leader's log, or waits for a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.model.names import Offset
from headrace.raft.log import NO_TERM
from headrace.raft.messages import NO_SESSION, AppendAnswer, AppendEntries, InstallSnapshot
from headrace.raft.ready import Role

if TYPE_CHECKING:
    from headrace.model.names import NodeId
    from headrace.raft.log import Entry, RaftLog, Term
    from headrace.raft.membership import ReplicaKey
    from headrace.raft.next_ready import NextReady


class FollowerState:
    role: Final = Role.FOLLOWER

    def __init__(
        self,
        me: ReplicaKey,
        term: Term,
        log: RaftLog,
        next_ready: NextReady,
        leader: NodeId | None = None,
        heard_ms: int = 0,
    ) -> None:
        self.leader = leader
        self._heard_ms = heard_ms
        self._me = me
        self._term = term
        self._log = log
        self._next = next_ready

    def has_heard_leader(self, since_ms: int) -> bool:
        return self.leader is not None and self._heard_ms > since_ms

    def append(self, message: AppendEntries) -> AppendAnswer:
        """Write what is new, commit what the leader has committed."""
        log = self._log
        if message.previous_end > log.commit_end and not log.has(message.previous_end, message.previous_term):
            return refused(message, self._me, self._term, log)
        fresh = self._without_known(message.entries)
        if fresh and fresh[0].base < log.end:
            end = log.end
            log.truncate(fresh[0].base)  # first: it lets nobody cut what is committed
            self._next.unsaved.truncate(fresh[0].base, end)
        log.append(fresh)
        self._next.unsaved.append(fresh)
        agreed_end = max(message.entries[-1].end if message.entries else message.previous_end, log.commit_end)
        self._next.commit(min(message.commit_end, agreed_end))
        return self._accepted(message, message.previous_end, agreed_end)

    def _without_known(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """From the first entry on that is not in our log. What is committed here is in the leader's log as well."""
        for place, entry in enumerate(entries):
            if entry.end > self._log.commit_end and not self._log.has(entry.end, entry.term):
                return entries[place:]
        return ()

    def install(self, message: InstallSnapshot) -> AppendAnswer:
        snapshot = message.snapshot
        if self._log.has(snapshot.end, snapshot.term):
            self._next.commit(snapshot.end)  # it came late: what follows here may have been promised to the leader
        elif snapshot.end > self._log.commit_end:
            self._next.restore(snapshot)
        return self._accepted(message, snapshot.end, self._log.commit_end)

    def _accepted(self, message: AppendEntries | InstallSnapshot, asked_end: Offset, end: Offset) -> AppendAnswer:
        last_term = self._log.last_term
        return AppendAnswer(self._me, self._term, True, end, last_term, asked_end, message.session, message.round)


def superseded(me: ReplicaKey, term: Term) -> AppendAnswer:
    """Whoever sent it leads no longer, and that is all that is said. It may lead again by the time that it hears this,
    in this very term, and would take an answer to its old message for one to a new one: for a node that has lost its
    log, or that has heard it a moment ago."""
    return AppendAnswer(me, term, False, Offset(0), NO_TERM, Offset(0), NO_SESSION, 0)


def refused(message: AppendEntries | InstallSnapshot, me: ReplicaKey, term: Term, log: RaftLog) -> AppendAnswer:
    """Its log and ours part before these entries."""
    if isinstance(message, AppendEntries):
        asked_end = message.previous_end
        hint_term, end = log.end_of_term(message.previous_term)
    else:
        asked_end = message.snapshot.end
        hint_term, end = log.last_term, log.end
    return AppendAnswer(me, term, False, end, hint_term, asked_end, message.session, message.round)
