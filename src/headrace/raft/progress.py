"""What a leader knows of one other node's log, and what of it others may see."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headrace.model.names import Offset
    from headrace.raft.log import RaftLog
    from headrace.raft.messages import AppendAnswer

IN_FLIGHT_MAX: Final = 8  # enough to fill the line while answers travel; a slow node must not fill our memory
SNAPSHOT_PATIENCE_MS: Final = 3000  # heartbeats may overtake a large snapshot: only then is it taken for lost


class FollowerStatus(NamedTuple):
    """How far a node is that has answered this leader."""

    directory: bytes
    """The disk that it answers with."""
    match_end: Offset
    """Known to be on that disk."""
    heard_ms: int
    """When it last answered, on the steady clock."""
    is_probing: bool
    """Until an answer says where the logs agree."""


@dataclass(slots=True)
class Progress:
    """`match_end` is known to be on its disk; `next` is what is sent next, ahead of the answers while all goes well."""

    match_end: Offset
    next: Offset
    session: int
    told_commit_end: Offset
    """The latest end of what is committed that was sent to it."""
    heard_ms: int
    """When it last answered, on the steady clock."""
    round: int = 0
    """The latest round that it answered."""
    agreed_round: int = -1
    """The latest round in which it had what it was asked about."""
    directory: bytes | None = None
    """None until its first answer."""
    is_probing: bool = True
    """Until an answer says where the logs agree, one message at a time."""
    installing_until_ms: int | None = None
    """While a snapshot is on its way: how long to believe in it. Entries make no sense until it is answered."""
    in_flight: deque[Offset] = field(default_factory=deque)
    """Where each message that is not answered yet ends. An answer also stands for those before it."""

    @property
    def status(self) -> FollowerStatus | None:
        if self.directory is None:
            return None
        return FollowerStatus(self.directory, self.match_end, self.heard_ms, self.is_probing)

    def may_send(self) -> bool:
        if self.installing_until_ms is not None:
            return False
        return len(self.in_flight) < (1 if self.is_probing else IN_FLIGHT_MAX)

    def sent(self, end: Offset) -> None:
        self.in_flight.append(end)
        if not self.is_probing:
            self.next = end

    def sent_snapshot(self) -> None:
        self.in_flight.clear()
        self.is_probing = True
        self.installing_until_ms = self.heard_ms + SNAPSHOT_PATIENCE_MS

    def accepted(self, answer: AppendAnswer) -> None:
        self.match_end = max(self.match_end, answer.end)
        self.agreed_round = max(self.agreed_round, answer.round)
        self.next = max(self.next, self.match_end)
        if self.is_probing:
            self.next = self.match_end
            self.in_flight.clear()
        while self.in_flight and self.in_flight[0] <= self.match_end:
            self.in_flight.popleft()
        self.installing_until_ms = None
        self.is_probing = False

    def has_regressed(self, answer: AppendAnswer) -> bool:
        """Whether a refusal tells that it lacks what it had confirmed before: somebody put an older copy of its disk
        back, say."""
        return answer.asked_end <= self.match_end and answer.round > self.agreed_round

    def refused(self, answer: AppendAnswer, log: RaftLog, now_ms: int) -> None:
        """Go back to the latest place that may be in both logs."""
        if self._is_stale(answer, log):
            return
        if self.installing_until_ms is not None:
            if now_ms < self.installing_until_ms:
                return
            self.installing_until_ms = None  # still it lacks what the snapshot holds: that one is lost
        self.in_flight.clear()
        self.is_probing = True
        term, end = log.end_of_term(answer.hint_term)
        if term > answer.hint_term:
            place = self.match_end  # what both have is no longer in our log: it takes a snapshot
        elif term == answer.hint_term:
            place = min(end, answer.end)
        else:
            place = end
        # Each refusal takes us back, and never behind what is known to agree.
        self.next = max(self.match_end, min(place, self.next))

    def _is_stale(self, answer: AppendAnswer, log: RaftLog) -> bool:
        """Whether it is about another place than the one in question: many messages after a lost one are refused."""
        if self.is_probing:
            return answer.asked_end != max(self.next, log.start)
        return answer.asked_end <= self.match_end
