"""The log as one voter knows it: entries since the last snapshot, in memory.

Positions are offsets, as in every log here: an entry covers the offsets from `base` up to `end`, which is exclusive,
and the next entry begins there. An entry may hold many records, so not every offset is the end of one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NewType

from headrace.model.names import Offset
from headrace.raft.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.raft.membership import ReplicaKey

Term = NewType("Term", int)
"""Counts elections; at most one leader in each."""

NO_TERM = Term(0)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a leader wrote: a change of the membership, or bytes that Raft does not look into."""

    term: Term
    base: Offset
    end: Offset
    payload: bytes | Membership

    @property
    def size(self) -> int:
        return len(self.payload) if isinstance(self.payload, bytes) else 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sum of all entries before `end`, the last of which was of this term."""

    end: Offset
    term: Term
    membership: Membership
    payload: bytes


class RaftLog:
    def __init__(self, snapshot: Snapshot, entries: Sequence[Entry] = ()) -> None:
        """As it was found on the disk; all of it is flushed.

        A crash may have come between a new snapshot and the end of the log that it replaces. So entries from before
        its end are passed over, and what follows is believed only if the log agrees with the snapshot.
        """
        self.snapshot = snapshot
        self.commit_end = snapshot.end
        self.start = snapshot.end
        """Where the entries begin: some before the snapshot's end may be kept for those who are slow."""
        self._start_term = snapshot.term
        self._entries: list[Entry] = []
        self._memberships: list[tuple[Offset, Membership]] = [(snapshot.end, snapshot.membership)]
        past = [entry for entry in entries if entry.base < snapshot.end]
        if not past or (past[-1].end, past[-1].term) == (snapshot.end, snapshot.term):
            self.append(entries[len(past) :])
        self.flushed_end = self.end

    @property
    def end(self) -> Offset:
        return self._entries[-1].end if self._entries else self.start

    @property
    def last_term(self) -> Term:
        return self._entries[-1].term if self._entries else self._start_term

    @property
    def membership(self) -> Membership:
        """The newest in the log. It counts as soon as it is written, committed or not."""
        return self._memberships[-1][1]

    @property
    def is_membership_committed(self) -> bool:
        return self._memberships[-1][0] <= self.commit_end

    def may_stand(self, me: ReplicaKey) -> bool:
        """Whether a node may be elected. One that is to leave still may while that is not decided.

        It may be the only one whose log is long enough, and the others may need its vote.
        """
        if me.node_id in self.membership.voter_ids:
            return self.membership.is_voter(me)
        return not self.is_membership_committed and self._memberships[-2][1].is_voter(me)

    def term_before(self, end: Offset) -> Term | None:
        """The term of the entry that ends there. None if no entry does, or it is no longer here."""
        if end == self.start:
            return self._start_term
        place = bisect_left(self._entries, end, key=_end)
        found = place < len(self._entries) and self._entries[place].end == end
        return self._entries[place].term if found else None

    def has(self, end: Offset, term: Term) -> bool:
        """Whether the log agrees with another one up to `end`, whose last entry there is of this term."""
        return self.term_before(end) == term

    def is_covered_by(self, last_term: Term, end: Offset) -> bool:
        """Whether that other log holds everything that can have been committed here."""
        return (self.last_term, self.end) <= (last_term, end)

    def end_of_term(self, term: Term) -> tuple[Term, Offset]:
        """The latest term up to this one that is in the log, and where it ends."""
        place = bisect_right(self._entries, term, key=_term)
        if place == 0:
            return self._start_term, self.start
        return self._entries[place - 1].term, self._entries[place - 1].end

    def entries_from(self, start: Offset, bytes_max: int) -> tuple[Entry, ...]:
        """What follows, at least one entry if there is any, and not much more than so many bytes."""
        first = bisect_right(self._entries, start, key=_end)
        last, size = first, 0
        while last < len(self._entries) and (last == first or size + self._entries[last].size <= bytes_max):
            size += self._entries[last].size
            last += 1
        return tuple(self._entries[first:last])

    def append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            assert entry.base == self.end, f"an entry at {entry.base} does not follow the log's end {self.end}"
            assert entry.term >= self.last_term, f"term {entry.term} after {self.last_term}"
            assert entry.end > entry.base, "an entry takes at least one offset"
            self._entries.append(entry)
            if isinstance(entry.payload, Membership):
                self._memberships.append((entry.end, entry.payload))

    def bootstrap(self, membership: Membership) -> None:
        """Nothing was ever written, and nobody has said who votes: with these it begins."""
        assert self.end == 0, "only an empty log can begin"
        assert not self.membership.voters, f"it has begun with {self.membership.voters}"
        self.snapshot = replace(self.snapshot, membership=membership)
        self._memberships = [(self.snapshot.end, membership)]

    def truncate(self, end: Offset) -> None:
        """Another leader's log goes on differently from here."""
        # What is committed is in every later leader's log: whoever contradicts it is wrong, or we are.
        assert end >= self.commit_end, f"asked to cut at {end} what is committed up to {self.commit_end}"
        del self._entries[bisect_right(self._entries, end, key=_end) :]
        assert self.end == end, f"{end} is in the middle of an entry"
        while self._memberships[-1][0] > end:
            self._memberships.pop()
        self.flushed_end = min(self.flushed_end, end)

    def commit(self, end: Offset) -> tuple[Entry, ...]:
        """Everything up to there is decided. Returns what is new."""
        assert self.commit_end <= end <= self.end, f"commit {end} outside of {self.commit_end}..{self.end}"
        first = bisect_right(self._entries, self.commit_end, key=_end)
        last = bisect_right(self._entries, end, key=_end)
        self.commit_end = end
        return tuple(self._entries[first:last])

    def restore(self, snapshot: Snapshot) -> None:
        """Begin anew from a snapshot that goes further than anything known here."""
        assert snapshot.end > self.commit_end
        self.flushed_end = min(self.flushed_end, self.commit_end)  # on disk is the old log still
        self.snapshot = snapshot
        self.commit_end = self.start = snapshot.end
        self._start_term = snapshot.term
        self._entries = []
        self._memberships = [(snapshot.end, snapshot.membership)]

    def compact(self, snapshot: Snapshot, keep_from: Offset) -> None:
        """A snapshot of what is committed stands for the past. Entries from `keep_from` on stay for those who lag."""
        assert self.snapshot.end <= snapshot.end <= self.commit_end
        assert self.has(snapshot.end, snapshot.term), f"the log has no term {snapshot.term} before {snapshot.end}"
        self.snapshot = snapshot
        gone = bisect_right(self._entries, min(keep_from, snapshot.end), key=_end)
        if gone > 0:
            self.start, self._start_term = self._entries[gone - 1].end, self._entries[gone - 1].term
            del self._entries[:gone]
        past = [place for place, (end, _) in enumerate(self._memberships) if end <= snapshot.end]
        del self._memberships[: past[-1]]

    def membership_at(self, end: Offset) -> Membership:
        """As the log had it there; for a snapshot that ends there."""
        return next(membership for since, membership in reversed(self._memberships) if since <= end)


def _end(entry: Entry) -> Offset:
    return entry.end


def _term(entry: Entry) -> Term:
    return entry.term


EMPTY_SNAPSHOT = Snapshot(Offset(0), NO_TERM, Membership(), b"")
