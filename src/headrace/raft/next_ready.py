"""What has to be done since the last `Ready`: it is collected here until the next one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.raft.ready import Ready
from headrace.raft.unsaved import Unsaved

if TYPE_CHECKING:
    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import Entry, RaftLog, Snapshot
    from headrace.raft.ready import HardState, ReadState, Saving, SoftState


class NextReady:
    def __init__(self, log: RaftLog, hard_state: HardState, soft_state: SoftState) -> None:
        """As they are at the start: that is no news."""
        self.unsaved = Unsaved(hard_state)
        self.read_states: list[ReadState] = []
        self.lost_reads: list[object] = []
        self.regressed: list[NodeId] = []
        self._log = log
        self._installed: Snapshot | None = None
        self._committed: list[Entry] = []
        self._reported = soft_state

    def commit(self, end: Offset) -> None:
        if end > self._log.commit_end:
            self._committed += self._log.commit(end)

    def restore(self, snapshot: Snapshot) -> None:
        """A snapshot takes the place of the log, and of what was committed and not applied yet."""
        self.unsaved.restore(snapshot, self._log.commit_end)
        self._log.restore(snapshot)
        self._installed = snapshot
        self._committed = []

    def flushed(self, saving: Saving) -> None:
        self._log.flushed_end = max(self._log.flushed_end, self.unsaved.flushed(saving))

    def take(self, hard_state: HardState, soft_state: SoftState) -> Ready | None:
        """None: there is nothing to be done, and nothing to be told."""
        saving, messages = self.unsaved.take(hard_state, self._log.end)
        is_news = not saving.is_empty or soft_state != self._reported
        if not (is_news or messages or self._committed or self.read_states or self.lost_reads):
            return None
        ready = Ready(
            saving,
            tuple(messages),
            self._installed,
            tuple(self._committed),
            tuple(self.read_states),
            tuple(self.lost_reads),
            tuple(self.regressed),
            *soft_state,
        )
        self._installed, self._reported = None, soft_state
        self._committed, self.read_states, self.lost_reads, self.regressed = [], [], [], []
        return ready
