"""The progress of all followers together: what a majority has on disk, and whether a majority is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.names import Offset
from headrace.raft.membership import ReplicaKey
from headrace.raft.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import NodeId
    from headrace.raft.log import RaftLog
    from headrace.raft.membership import Membership, Number, Voter


class ProgressTracker:
    """Of one leadership. What was said to an earlier leader does not count."""

    def __init__(self, me: ReplicaKey, log: RaftLog) -> None:
        self.progress: dict[NodeId, Progress] = {}
        self._me = me
        self._log = log
        self._session = 0

    def follow_membership(self, now_ms: int) -> None:
        """Begin with those who came, forget those who went."""
        wanted = [node_id for node_id in self._log.membership.everybody if node_id != self._me.node_id]
        for node_id in [node_id for node_id in self.progress if node_id not in wanted]:
            del self.progress[node_id]
        for node_id in wanted:
            if node_id not in self.progress:
                self.progress[node_id] = self._unknown(now_ms)

    def begin_again(self, replica: ReplicaKey, now_ms: int) -> Progress:
        """Nothing that it said counts any longer."""
        self.progress[replica.node_id] = progress = self._unknown(now_ms)
        progress.directory = replica.directory
        return progress

    def _unknown(self, now_ms: int) -> Progress:
        self._session += 1
        # Nothing is known of it, so nothing counts; but most likely it has what we have.
        return Progress(Offset(0), self._log.end, self._session, Offset(0), now_ms)

    # ---- what a majority has

    def agreed_end(self) -> Offset:
        """How far a majority has the log on disk."""
        ends = {node_id: progress.match_end for node_id, progress in self._voters(self._log.membership)}
        return self._agreed(ends, self._log.flushed_end, Offset(0))

    def agreed_round(self, our_round: int) -> int:
        """The latest round that a majority has answered."""
        rounds = {node_id: progress.round for node_id, progress in self._voters(self._log.membership)}
        return self._agreed(rounds, our_round, 0)

    def _agreed(self, reached: dict[NodeId, Number], ours: Number, otherwise: Number) -> Number:
        # A leader that was voted out leads until that is decided, but does not count.
        if self._log.membership.is_voter(self._me):
            reached[self._me.node_id] = ours
        return self._log.membership.agreed(reached, otherwise)

    def _voters(self, membership: Membership) -> Iterator[tuple[NodeId, Progress]]:
        for node_id, progress in self.progress.items():
            if progress.directory is not None and membership.is_voter(ReplicaKey(node_id, progress.directory)):
                yield node_id, progress

    # ---- who is there

    def has_quorum(self, since_ms: int) -> bool:
        """Whether a majority may be there: it has answered since then, or had no time for it yet."""
        # Who was not heard yet in this leadership is given as long as one that fell silent when it began.
        unheard = {
            node_id
            for node_id, progress in self.progress.items()
            if progress.directory is None and progress.heard_ms >= since_ms
        }
        return self._log.membership.is_majority(self.answering(self._log.membership, since_ms) | unheard)

    def answering(self, membership: Membership, since_ms: int) -> set[NodeId]:
        """The voters, as they are or as they are to be, of whom an answer in this leadership shows that they live."""
        answering = {node_id for node_id, progress in self._voters(membership) if progress.heard_ms >= since_ms}
        return answering | ({self._me.node_id} if membership.is_voter(self._me) else set())

    def has_caught_up(self, voter: Voter) -> bool:
        """Whether a learner, with that disk, has everything that is decided."""
        progress = self.progress.get(voter.node_id)
        return (
            progress is not None
            and progress.directory == voter.directory
            and not progress.is_probing
            and progress.match_end >= self._log.commit_end
        )

    def has_whole_log(self, node_id: NodeId) -> bool:
        progress = self.progress.get(node_id)
        return progress is not None and progress.match_end == self._log.end

    def voter_with_whole_log(self) -> NodeId | None:
        voters = self._voters(self._log.membership)
        return next((node_id for node_id, _ in voters if self.has_whole_log(node_id)), None)

    def known_replicas(self) -> list[ReplicaKey]:
        """With the disks that they answer with."""
        known = [ReplicaKey(node_id, it.directory) for node_id, it in self.progress.items() if it.directory is not None]
        return [self._me, *known]
