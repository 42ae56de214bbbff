"""Which leader wrote from which offset on: what replicas compare to find where their logs differ."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.names import NO_EPOCH, NO_OFFSET, Epoch, Offset

if TYPE_CHECKING:
    from collections.abc import Iterable


class EpochStart(NamedTuple):
    epoch: Epoch
    start_offset: Offset


class LeaderEpochs:
    """Entries rise in epoch and never fall in offset. `changes` grows whenever the checkpoint file is out of date."""

    __slots__ = ("_entries", "changes", "latest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self.latest: int = NO_EPOCH
        self.changes = 0
        for epoch, start_offset in entries:
            self.note(epoch, start_offset)
        self.changes = 0

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def note(self, epoch: int, start_offset: int) -> None:
        """Batches of `epoch` begin at `start_offset`. An epoch that is already known, or is none, changes nothing."""
        if epoch <= self.latest:
            return
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()  # that epoch wrote nothing
        self._entries.append(EpochStart(Epoch(epoch), Offset(start_offset)))
        self.latest = epoch
        self.changes += 1

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[Epoch, Offset]:
        """The largest known epoch not above `epoch`, and the offset where the next one begins; (-1, -1) if none."""
        at = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if at == 0:
            return NO_EPOCH, NO_OFFSET
        end = self._entries[at].start_offset if at < len(self._entries) else Offset(log_end)
        return self._entries[at - 1].epoch, end

    def epoch_at(self, offset: int) -> Epoch:
        """Which leader wrote the record at `offset`."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after `end_offset`: their batches were cut off."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._replace(kept)

    def truncate_start(self, start_offset: int) -> None:
        """Forget epochs that end before the record in front of `start_offset`. Who wrote that one is still asked: by a
        replica that ends here, and may have got it from another leader."""
        at = bisect_left(self._entries, start_offset, key=lambda entry: entry.start_offset)
        self._replace(self._entries[max(0, at - 1) :])

    def _replace(self, entries: list[EpochStart]) -> None:
        if entries != self._entries:
            self._entries = entries
            self.latest = entries[-1].epoch if entries else NO_EPOCH
            self.changes += 1
