"""A disk that forgets what was not flushed, or keeps some first part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.raft.log import Entry, RaftLog, Snapshot, Term
from headrace.raft.ready import HardState, Saving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from headrace.model.names import Offset

Step = HardState | Snapshot | Entry | int


class RaftDisk:
    """`hard_state`, `snapshot` and `entries` are safe; what was only written is in `unflushed`."""

    def __init__(self, directory: bytes, snapshot: Snapshot) -> None:
        self.directory = directory
        self.hard_state = HardState()
        self.snapshot = snapshot
        self.entries: list[Entry] = []
        self.unflushed: list[Saving] = []

    @property
    def end(self) -> Offset:
        return self.entries[-1].end if self.entries else self.snapshot.end

    def flush(self) -> Saving:
        saving = self.unflushed.pop(0)
        for step in _steps(saving):
            self._perform(step)
        return saving

    def crash(self, chance: Random) -> None:
        """Savings are several writes; any number of the first may have arrived."""
        steps = [step for saving in self.unflushed for step in _steps(saving)]
        self.unflushed.clear()
        for step in steps[: chance.randint(0, len(steps))]:
            self._perform(step)

    def _perform(self, step: Step) -> None:
        match step:
            case HardState():
                self.hard_state = step
            case Snapshot():
                self.snapshot = step
            case Entry():
                assert step.base == self.end, f"a hole before {step.base}, the disk ends at {self.end}"
                self.entries.append(step)
            case end:
                self.entries = [entry for entry in self.entries if entry.end <= end]

    def compact(self, snapshot: Snapshot, start: Offset) -> None:
        """The node made a snapshot of its own, and no longer needs entries before `start`."""
        self.snapshot = snapshot
        self.entries = [entry for entry in self.entries if entry.base >= start]

    def log(self) -> RaftLog:
        return RaftLog(self.snapshot, self.entries)

    def settle(self) -> None:
        """At a start: what the log did not believe is gone from the disk as well."""
        log = self.log()
        self.entries = list(log.entries_from(log.start, 1 << 40))

    def holds(self, end: Offset, term: Term) -> bool:
        if end <= self.snapshot.end:
            return True
        return any((entry.end, entry.term) == (end, term) for entry in reversed(self.entries))


def _steps(saving: Saving) -> Iterator[Step]:
    if saving.hard_state is not None:
        yield saving.hard_state
    if saving.snapshot is not None:
        yield saving.snapshot
        yield -1  # the log goes after its substitute has come
    if saving.truncate_to is not None:
        yield int(saving.truncate_to)
    yield from saving.entries
