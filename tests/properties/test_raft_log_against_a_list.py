"""The log in memory against a plain list of everything that was ever in it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.model.names import NodeId, Offset
from headrace.raft.log import NO_TERM, Entry, RaftLog, Snapshot, Term
from headrace.raft.membership import Membership, Voter

FIRST = Membership((Voter(NodeId(1)),))
parts = st.floats(0, 1, allow_nan=False)


class LogAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = RaftLog(Snapshot(Offset(0), NO_TERM, FIRST, b""))
        self.all: list[Entry] = []
        self.committed = 0
        self.summed_up = 0
        self.term = 1

    def end_of(self, count: int) -> Offset:
        return self.all[count - 1].end if count else Offset(0)

    def term_of(self, count: int) -> Term:
        return self.all[count - 1].term if count else NO_TERM

    def membership_of(self, count: int) -> Membership:
        found = [entry.payload for entry in self.all[:count] if isinstance(entry.payload, Membership)]
        return found[-1] if found else FIRST

    def between(self, low: int, high: int, part: float) -> int:
        return low + round((high - low) * part)

    @rule(width=st.integers(1, 3), later=st.integers(0, 2), learner=st.none() | st.integers(2, 9).map(NodeId))
    def append(self, width: int, later: int, learner: NodeId | None) -> None:
        self.term += later
        base = self.end_of(len(self.all))
        payload = b"x" * width if learner is None else FIRST.with_learner(learner)
        entry = Entry(Term(self.term), base, Offset(base + width), payload)
        self.log.append([entry])
        self.all.append(entry)

    @rule(part=parts)
    def commit(self, part: float) -> None:
        count = self.between(self.committed, len(self.all), part)
        assert list(self.log.commit(self.end_of(count))) == self.all[self.committed : count]
        self.committed = count

    @rule(part=parts)
    def truncate(self, part: float) -> None:
        count = self.between(self.committed, len(self.all), part)
        self.log.truncate(self.end_of(count))
        del self.all[count:]
        self.term += 1

    @precondition(lambda self: self.committed > self.summed_up)
    @rule(part=parts, keep=st.integers(0, 5))
    def compact(self, part: float, keep: int) -> None:
        count = self.between(self.summed_up + 1, self.committed, part)
        end = self.end_of(count)
        snapshot = Snapshot(end, self.term_of(count), self.log.membership_at(end), b"")
        assert snapshot.membership == self.membership_of(count)
        start_before = self.log.start
        self.log.compact(snapshot, Offset(end - keep))
        self.summed_up = count
        assert start_before <= self.log.start <= max(start_before, end - keep)

    @rule()
    def start_again(self) -> None:
        """From the disk, where entries before the snapshot may still be."""
        self.log = RaftLog(self.log.snapshot, self.all)
        assert self.log.flushed_end == self.log.end
        self.committed = self.summed_up

    @rule(part=parts)
    def start_again_after_half_an_installation(self, part: float) -> None:
        """The snapshot is on the disk; the log is still the old one, which went on differently."""
        end = Offset(self.between(self.log.commit_end, self.log.end, part) + 1)
        snapshot = Snapshot(end, Term(self.term + 1), FIRST, b"")
        found = RaftLog(snapshot, self.all)
        assert (found.end, found.last_term, found.membership) == (end, snapshot.term, FIRST)

    @invariant()
    def they_agree(self) -> None:
        log, count = self.log, len(self.all)
        assert (log.end, log.last_term, log.membership) == (
            self.end_of(count),
            self.term_of(count),
            self.membership_of(count),
        )
        assert log.commit_end == self.end_of(self.committed)
        kept = [entry for entry in self.all if entry.base >= log.start]
        assert list(log.entries_from(log.start, 1 << 30)) == kept
        for place in range(count + 1):
            end = self.end_of(place)
            assert log.term_before(end) == (self.term_of(place) if end >= log.start else None)

    @invariant()
    def terms_end_where_they_end(self) -> None:
        for term in range(self.term + 1):
            ends = [(entry.term, entry.end) for entry in self.all if entry.term <= term and entry.end > self.log.start]
            found = self.log.end_of_term(Term(term))
            assert found == (ends[-1] if ends else (self.log.term_before(self.log.start), self.log.start))


TestLogAgainstAList = LogAgainstAList.TestCase
