"""What is on its way to the disk, and what must not be said before it is there.

A vote that is heard and then forgotten in a crash can be given twice; an entry that is counted and then lost was never
on a majority. So whatever a node says that promises something waits here for its own saving and for all before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.raft.ready import HardState, Saving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.names import Offset
    from headrace.raft.log import Entry, Snapshot
    from headrace.raft.messages import OutboundMessage


@dataclass(slots=True)
class _Flight:
    saving: Saving
    end: Offset
    """How far the log is on the disk once this is, unless it is cut meanwhile."""
    messages: list[OutboundMessage]


class Unsaved:
    def __init__(self, hard_state: HardState) -> None:
        self.messages: list[OutboundMessage] = []
        """They promise nothing of the log; but nothing at all is said in a term that could be forgotten."""
        self.promises: list[OutboundMessage] = []
        self._kept: list[OutboundMessage] = []  # promises whose savings are flushed
        self._flights: deque[_Flight] = deque()
        self._hard_state = hard_state
        self._snapshot: Snapshot | None = None
        self._truncate_to: Offset | None = None
        self._entries: list[Entry] = []

    def append(self, entries: Sequence[Entry]) -> None:
        self._entries += entries

    def truncate(self, end: Offset, log_end: Offset) -> None:
        """The log, which ended at `log_end`, is cut at `end`."""
        given_end = self._entries[0].base if self._entries else log_end
        self._entries = [entry for entry in self._entries if entry.end <= end]
        if end < given_end:
            self._truncate_to = end
        self._distrust(end)

    def restore(self, snapshot: Snapshot, commit_end: Offset) -> None:
        """A snapshot takes the place of a log that was committed up to there."""
        self._snapshot, self._truncate_to, self._entries = snapshot, None, []
        self._distrust(commit_end)

    def _distrust(self, end: Offset) -> None:
        """What the flights carry beyond is no longer what the log says."""
        for flight in self._flights:
            flight.end = min(flight.end, end)

    def take(self, hard_state: HardState, log_end: Offset) -> tuple[Saving, list[OutboundMessage]]:
        """What is to be saved now, and what may be sent now."""
        changed = hard_state if hard_state != self._hard_state else None
        saving = Saving(changed, self._snapshot, self._truncate_to, tuple(self._entries))
        self._hard_state, self._snapshot, self._truncate_to, self._entries = hard_state, None, None, []
        sayable, promises, self._kept, self.promises = self._kept, self.promises, [], []
        if changed is not None or any(flight.saving.hard_state is not None for flight in self._flights):
            promises = self.messages + promises
        else:
            sayable = sayable + self.messages
        self.messages = []
        if not saving.is_empty:
            self._flights.append(_Flight(saving, log_end, promises))
        elif self._flights:
            self._flights[-1].messages += promises
        else:
            sayable = sayable + promises
        return saving, sayable

    def flushed(self, saving: Saving) -> Offset:
        """It is on the disk, and so is the log up to the returned place."""
        flight = self._flights.popleft()
        assert flight.saving is saving, "savings are flushed in the order in which they were given"
        self._kept += flight.messages
        return flight.end
