"""The leader: writes and sends entries, counts answers, confirms reads, and changes who votes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.raft.log import Entry
from headrace.raft.messages import AppendAnswer, AppendEntries, InstallSnapshot, OutboundMessage, TakeOver
from headrace.raft.ready import ReadState, Role
from headrace.raft.tracker import ProgressTracker

if TYPE_CHECKING:
    from headrace.model.names import NodeId
    from headrace.raft.log import RaftLog, Term
    from headrace.raft.membership import Membership, ReplicaKey
    from headrace.raft.next_ready import NextReady
    from headrace.raft.progress import FollowerStatus, Progress

MESSAGE_BYTES: Final = 1 << 20  # an answer comes back soon, and a lost message costs little


class LeaderState:
    role: Final = Role.LEADER

    def __init__(self, me: ReplicaKey, term: Term, log: RaftLog, next_ready: NextReady, now_ms: int) -> None:
        self.term = term
        self.leader: Final = me.node_id
        self.transferee: NodeId | None = None
        """Who is to lead next, while leadership is being transferred. Nothing new is accepted then."""
        self.last_heartbeat_ms = now_ms
        """When everybody was last told that we lead."""
        self._transfer_until_ms = 0
        self._me = me
        self._log = log
        self._next = next_ready
        self._tracker = ProgressTracker(me, log)
        self._term_start = log.end
        self._round = 0
        self._reads: deque[tuple[object, int]] = deque()  # waiting for others to answer their round
        self._early_reads: list[object] = []  # waiting for the first commit of this term
        self._follow_membership(now_ms)

    def followers(self) -> dict[NodeId, FollowerStatus]:
        """How far everybody is who has answered in this leadership."""
        statuses = {node_id: progress.status for node_id, progress in self._tracker.progress.items()}
        return {node_id: status for node_id, status in statuses.items() if status is not None}

    # ---- writing

    def append(self, payload: bytes | Membership, width: int) -> Entry:
        """Write an entry of so many offsets. It is not decided yet."""
        entry = Entry(self.term, self._log.end, Offset(self._log.end + width), payload)
        self._log.append([entry])
        self._next.unsaved.append([entry])
        return entry

    def propose(self, payload: bytes, width: int) -> Offset:
        entry = self.append(payload, width)
        self.send_all()
        return entry.end

    # ---- sending

    def send_all(self) -> None:
        """Everything that each may get now; at least the news of what is committed."""
        for node_id, progress in self._tracker.progress.items():
            while progress.may_send() and progress.next < self._log.end:
                self._send(node_id, progress)
            if not progress.is_probing and progress.told_commit_end < self._log.commit_end:
                self._send_entries(node_id, progress, ())

    def send_heartbeats(self, now_ms: int) -> None:
        """Tell everybody that we lead. It asks about the place we believe each to be at, so it also finds losses."""
        self._round += 1
        self.last_heartbeat_ms = now_ms
        for node_id, progress in self._tracker.progress.items():
            if progress.may_send() and progress.next < self._log.end:
                self._send(node_id, progress)
            else:
                self._send_entries(node_id, progress, ())
        if self.transferee is not None:
            self._ask_transferee()

    def _send(self, node_id: NodeId, progress: Progress) -> None:
        if progress.next < self._log.start:
            self._send_snapshot(node_id, progress)
            return
        entries = self._log.entries_from(progress.next, MESSAGE_BYTES)
        self._send_entries(node_id, progress, entries)
        if entries:
            progress.sent(entries[-1].end)

    def _send_entries(self, node_id: NodeId, progress: Progress, entries: tuple[Entry, ...]) -> None:
        previous_end = max(progress.next, self._log.start)
        previous_term = self._log.term_before(previous_end)
        assert previous_term is not None, f"{previous_end} is in the middle of an entry"
        message = AppendEntries(
            self._me,
            self.term,
            previous_end,
            previous_term,
            entries,
            self._log.commit_end,
            progress.session,
            self._round,
        )
        self._next.unsaved.messages.append(OutboundMessage(node_id, message))
        progress.told_commit_end = self._log.commit_end

    def _send_snapshot(self, node_id: NodeId, progress: Progress) -> None:
        message = InstallSnapshot(self._me, self.term, self._log.snapshot, progress.session, self._round)
        self._next.unsaved.messages.append(OutboundMessage(node_id, message))
        progress.sent_snapshot()

    # ---- answers

    def answered(self, answer: AppendAnswer, now_ms: int) -> None:
        progress = self._tracker.progress.get(answer.source.node_id)
        if progress is None or progress.session != answer.session:
            return  # of another membership, or said before its disk was changed
        if answer.is_accepted and answer.end > self._log.end:
            return  # nobody can have more of our log than we do
        if progress.directory not in {None, answer.source.directory}:
            self._begin_again(answer.source, now_ms)  # another disk: what it had before may be gone
            return
        if not answer.is_accepted and progress.has_regressed(answer):
            self._next.regressed.append(answer.source.node_id)
            self._begin_again(answer.source, now_ms)
            return
        progress.directory = answer.source.directory
        progress.heard_ms = now_ms
        progress.round = max(progress.round, answer.round)
        if answer.is_accepted:
            progress.accepted(answer)
        else:
            progress.refused(answer, self._log, now_ms)
        self._confirm_reads(now_ms)
        if answer.source.node_id == self.transferee:
            self._ask_transferee()

    def _begin_again(self, other: ReplicaKey, now_ms: int) -> None:
        """Nothing that it said counts any longer, and it is asked what it has."""
        self._send_entries(other.node_id, self._tracker.begin_again(other, now_ms), ())

    def agreed_end(self) -> Offset:
        """How far a majority has it on disk. Only entries of our own term are counted; they carry those before them.

        (An older one may be on a majority and still be replaced: figure 8 of the Raft paper.)
        """
        end = self._tracker.agreed_end()
        return end if end > self._term_start else self._log.commit_end

    def has_quorum(self, since_ms: int) -> bool:
        """Whether a majority may be there: it has answered since then, or had no time for it yet."""
        return self._tracker.has_quorum(since_ms)

    # ---- who votes

    def change_membership(self, later: Membership, since_ms: int, now_ms: int) -> Offset:
        """Of the voters that are to be, a majority must have answered since then."""
        if not self._may_change_membership():
            raise Refusal(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                "another change of the voters is not decided yet; try again in a moment",
            )
        self._expect_safe(later, since_ms)
        return self._write_membership(later, now_ms)

    def note_disks(self, now_ms: int) -> None:
        """Write down which disks voters answer with, once that is known."""
        known = self._log.membership.knowing(self._tracker.known_replicas())
        if known != self._log.membership and self._may_change_membership():
            self._write_membership(known, now_ms)

    def _may_change_membership(self) -> bool:
        # Without an entry of our own term decided, a change that an earlier leader wrote may still come back.
        return self._log.is_membership_committed and self.has_committed()

    def _write_membership(self, membership: Membership, now_ms: int) -> Offset:
        entry = self.append(membership, 1)
        self._follow_membership(now_ms)
        self.send_all()
        return entry.end

    def _follow_membership(self, now_ms: int) -> None:
        self._tracker.follow_membership(now_ms)
        self._confirm_reads(now_ms)  # they may have waited for one who went

    def _expect_safe(self, later: Membership, since_ms: int) -> None:
        """Refuse a change of voters after which two could decide, or none."""
        now = self._log.membership
        if not now.may_become(later):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"voters change one at a time, and keep their disks: {now.voters} cannot become {later.voters}",
            )
        for voter in later.voters:
            if voter.node_id not in now.voter_ids and not self._tracker.has_caught_up(voter):
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"node {voter.node_id} would hold up every decision: add it as a learner first, and try again "
                    "once it has caught up",
                )
        if not later.is_majority(self._tracker.answering(later, since_ms)):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"too few of the voters {list(later.voter_ids)} answer: they could decide nothing, not even to go "
                "back; try again once more of them are there",
            )

    # ---- reads

    def read(self, token: object, now_ms: int) -> None:
        """Answered once it is certain that nobody else led at this moment."""
        if not self.has_committed():
            self._early_reads.append(token)
            return
        self._reads.append((token, self._round + 1))
        if len(self._reads) == 1:
            self.send_heartbeats(now_ms)
        self._confirm_reads(now_ms)

    def committed(self, now_ms: int) -> None:
        """The first commit of a term tells what all earlier terms had committed."""
        if self.has_committed():
            early, self._early_reads = self._early_reads, []
            for token in early:
                self.read(token, now_ms)

    def has_committed(self) -> bool:
        return self._log.commit_end > self._term_start

    def lost_reads(self) -> list[object]:
        return [token for token, _ in self._reads] + self._early_reads

    def _confirm_reads(self, now_ms: int) -> None:
        confirmed = self._tracker.agreed_round(self._round)
        while self._reads and self._reads[0][1] <= confirmed:
            token, _ = self._reads.popleft()
            self._next.read_states.append(ReadState(token, self._log.commit_end))
        if self._reads and self._reads[0][1] > self._round:
            self.send_heartbeats(now_ms)
            self._confirm_reads(now_ms)  # where nobody else votes, no answer comes

    # ---- transferring leadership

    def transfer_to(self, transferee: NodeId, until_ms: int) -> None:
        voter_ids = self._log.membership.voter_ids
        if transferee not in voter_ids:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"node {transferee} is no voter: {list(voter_ids)} are")
        if transferee == self.leader:
            return
        self.transferee = transferee
        self._transfer_until_ms = until_ms
        self._ask_transferee()

    def leave_to_anybody(self) -> None:
        """Whoever has everything may stand at once."""
        node_id = self._tracker.voter_with_whole_log()
        if node_id is not None:
            self._ask_to_take_over(node_id)

    def give_up_late_transfer(self, now_ms: int) -> None:
        if self.transferee is not None and now_ms >= self._transfer_until_ms:
            self.transferee = None

    def _ask_transferee(self) -> None:
        assert self.transferee is not None
        if self._tracker.has_whole_log(self.transferee):
            self._ask_to_take_over(self.transferee)

    def _ask_to_take_over(self, node_id: NodeId) -> None:
        self._next.unsaved.messages.append(OutboundMessage(node_id, TakeOver(self._me, self.term)))
