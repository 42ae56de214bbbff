"""One leadership: sends entries, counts answers, commits, confirms reads, and gives up when nobody answers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset
from headrace.raft.log import Entry
from headrace.raft.membership import Membership, Number, Replica, Voter
from headrace.raft.messages import AppendAnswer, AppendEntries, InstallSnapshot, Letter, TakeOver
from headrace.raft.progress import Follower
from headrace.raft.ready import Readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.model.names import NodeId
    from headrace.raft.log import RaftLog, Term

MESSAGE_BYTES: Final = 1 << 20  # an answer comes back soon, and a lost message costs little


class Leadership:
    def __init__(self, me: Replica, term: Term, log: RaftLog, now_ms: int) -> None:
        self.term = term
        self.letters: list[Letter] = []
        self.readable: list[Readable] = []
        self.relapsed: list[NodeId] = []
        self.followers: dict[NodeId, Follower] = {}
        self.heir: NodeId | None = None
        """Who is to lead next, while leadership is being handed over. Nothing new is accepted then."""
        self._heir_until_ms = 0
        self._me = me
        self._log = log
        self._term_start = log.end
        self._round = 0
        self.beaten_ms = now_ms
        """When everybody was last told that we lead."""
        self._session = 0
        self._reads: deque[tuple[object, int]] = deque()  # waiting for others to answer their round
        self._early_reads: list[object] = []  # waiting for the first commit of this term
        self.follow_membership(now_ms)

    # ---- writing

    def propose(self, payload: bytes | Membership, width: int) -> Entry:
        """Write an entry of so many offsets. It is not decided yet."""
        entry = Entry(self.term, self._log.end, Offset(self._log.end + width), payload)
        self._log.append([entry])
        return entry

    def follow_membership(self, now_ms: int) -> None:
        """Begin to send to those who came, stop for those who went."""
        wanted = [node_id for node_id in self._log.membership.everybody if node_id != self._me.node_id]
        for node_id in [node_id for node_id in self.followers if node_id not in wanted]:
            del self.followers[node_id]
        for node_id in wanted:
            if node_id not in self.followers:
                self.followers[node_id] = self._new_follower(now_ms)
        self._confirm_reads(now_ms)  # they may have waited for one who went

    def _new_follower(self, now_ms: int) -> Follower:
        self._session += 1
        # Nothing is known of it, so nothing counts; but most likely it has what we have.
        return Follower(Offset(0), self._log.end, self._session, Offset(0), now_ms)

    # ---- sending

    def send_all(self) -> None:
        """Everything that each may get now; at least the news of what is committed."""
        for node_id, follower in self.followers.items():
            while follower.may_send() and follower.next < self._log.end:
                self._send(node_id, follower)
            if not follower.is_probing and follower.told_end < self._log.commit_end:
                self._send_entries(node_id, follower, ())

    def beat(self, now_ms: int) -> None:
        """Tell everybody that we lead. It asks about the place we believe each to be at, so it also finds losses."""
        self._round += 1
        self.beaten_ms = now_ms
        for node_id, follower in self.followers.items():
            if follower.may_send() and follower.next < self._log.end:
                self._send(node_id, follower)
            else:
                self._send_entries(node_id, follower, ())
        if self.heir is not None:
            self._hand_over()

    def _send(self, node_id: NodeId, follower: Follower) -> None:
        if follower.next < self._log.start:
            self._send_snapshot(node_id, follower)
            return
        entries = self._log.entries_from(follower.next, MESSAGE_BYTES)
        self._send_entries(node_id, follower, entries)
        if entries:
            follower.sent(entries[-1].end)

    def _send_entries(self, node_id: NodeId, follower: Follower, entries: tuple[Entry, ...]) -> None:
        previous_end = max(follower.next, self._log.start)
        previous_term = self._log.term_before(previous_end)
        assert previous_term is not None, f"{previous_end} is in the middle of an entry"
        message = AppendEntries(
            self._me,
            self.term,
            previous_end,
            previous_term,
            entries,
            self._log.commit_end,
            follower.session,
            self._round,
        )
        self.letters.append(Letter(node_id, message))
        follower.told_end = self._log.commit_end

    def _send_snapshot(self, node_id: NodeId, follower: Follower) -> None:
        message = InstallSnapshot(self._me, self.term, self._log.snapshot, follower.session, self._round)
        self.letters.append(Letter(node_id, message))
        follower.sent_snapshot()

    # ---- answers

    def answered(self, answer: AppendAnswer, now_ms: int) -> None:
        follower = self.followers.get(answer.source.node_id)
        if follower is None or follower.session != answer.session:
            return  # of another membership, or said before its disk was changed
        if answer.is_accepted and answer.end > self._log.end:
            return  # nobody can have more of our log than we do
        if follower.directory not in {None, answer.source.directory}:
            self._begin_again(answer.source, now_ms)  # another disk: what it had before may be gone
            return
        if not answer.is_accepted and follower.has_relapsed(answer):
            self.relapsed.append(answer.source.node_id)
            self._begin_again(answer.source, now_ms)
            return
        follower.directory = answer.source.directory
        follower.heard_ms = now_ms
        follower.round = max(follower.round, answer.round)
        if answer.is_accepted:
            follower.accepted(answer)
        else:
            follower.refused(answer, self._log, now_ms)
        self._confirm_reads(now_ms)
        if answer.source.node_id == self.heir:
            self._hand_over()

    def _begin_again(self, other: Replica, now_ms: int) -> None:
        """Nothing that it said counts any longer, and it is asked what it has."""
        self.followers[other.node_id] = follower = self._new_follower(now_ms)
        follower.directory = other.directory
        self._send_entries(other.node_id, follower, ())

    def agreed_end(self) -> Offset:
        """How far a majority has it on disk. Only entries of our own term are counted; they carry those before them.

        (An older one may be on a majority and still be replaced: figure 8 of the Raft paper.)
        """
        ends = {node_id: follower.match_end for node_id, follower in self._voting_followers(self._log.membership)}
        ends |= self._mine(self._log.flushed_end)
        end = self._log.membership.agreed(ends, Offset(0))
        return end if end > self._term_start else self._log.commit_end

    def _mine(self, reached: Number) -> dict[NodeId, Number]:
        """What we have reached ourselves, if it counts: a leader that was voted out leads until that is decided."""
        return {self._me.node_id: reached} if self._log.membership.is_voter(self._me) else {}

    def _voting_followers(self, membership: Membership) -> Iterator[tuple[NodeId, Follower]]:
        for node_id, follower in self.followers.items():
            if follower.directory is not None and membership.is_voter(Replica(node_id, follower.directory)):
                yield node_id, follower

    def has_quorum(self, since_ms: int) -> bool:
        """Whether a majority may be there: it has answered since then, or had no time for it yet."""
        # Who was not heard yet in this leadership is given as long as one that fell silent when it began.
        unheard = {
            node_id
            for node_id, follower in self.followers.items()
            if follower.directory is None and follower.heard_ms >= since_ms
        }
        return self._log.membership.is_majority(self._answering(self._log.membership, since_ms) | unheard)

    def _answering(self, membership: Membership, since_ms: int) -> set[NodeId]:
        """The voters, as they are or as they are to be, of whom an answer in this leadership shows that they live."""
        answering = {
            node_id for node_id, follower in self._voting_followers(membership) if follower.heard_ms >= since_ms
        }
        return answering | ({self._me.node_id} if membership.is_voter(self._me) else set())

    def expect_safe(self, later: Membership, since_ms: int) -> None:
        """Refuse a change of voters after which two could decide, or none."""
        now = self._log.membership
        if not now.may_become(later):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"voters change one at a time, and keep their disks: {now.voters} cannot become {later.voters}",
            )
        for voter in later.voters:
            if voter.node_id not in now.voter_ids and not self._has_caught_up(voter):
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"node {voter.node_id} would hold up every decision: add it as a learner first, and try again "
                    "once it has caught up",
                )
        if not later.is_majority(self._answering(later, since_ms)):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"too few of the voters {list(later.voter_ids)} answer: they could decide nothing, not even to go "
                "back; try again once more of them are there",
            )

    def _has_caught_up(self, voter: Voter) -> bool:
        """Whether a learner, with that disk, has everything that is decided."""
        follower = self.followers.get(voter.node_id)
        return (
            follower is not None
            and follower.directory == voter.directory
            and not follower.is_probing
            and follower.match_end >= self._log.commit_end
        )

    def known_replicas(self) -> list[Replica]:
        known = [Replica(node_id, it.directory) for node_id, it in self.followers.items() if it.directory is not None]
        return [self._me, *known]

    # ---- reads

    def read(self, token: object, now_ms: int) -> None:
        """Answered once it is certain that nobody else led at this moment."""
        if not self.has_committed():
            self._early_reads.append(token)
            return
        self._reads.append((token, self._round + 1))
        if len(self._reads) == 1:
            self.beat(now_ms)
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
        rounds = {node_id: follower.round for node_id, follower in self._voting_followers(self._log.membership)}
        rounds |= self._mine(self._round)
        confirmed = self._log.membership.agreed(rounds, 0)
        while self._reads and self._reads[0][1] <= confirmed:
            token, _ = self._reads.popleft()
            self.readable.append(Readable(token, self._log.commit_end))
        if self._reads and self._reads[0][1] > self._round:
            self.beat(now_ms)
            self._confirm_reads(now_ms)  # where nobody else votes, no answer comes

    # ---- handing over

    def hand_over_to(self, heir: NodeId, until_ms: int) -> None:
        self.heir = heir
        self._heir_until_ms = until_ms
        self._hand_over()

    def bequeath(self) -> None:
        """Who has everything may stand at once."""
        for node_id, follower in self._voting_followers(self._log.membership):
            if follower.match_end == self._log.end:
                self.letters.append(Letter(node_id, TakeOver(self._me, self.term)))
                return

    def keep_if_heir_failed(self, now_ms: int) -> None:
        if self.heir is not None and now_ms >= self._heir_until_ms:
            self.heir = None

    def _hand_over(self) -> None:
        assert self.heir is not None
        follower = self.followers.get(self.heir)
        if follower is not None and follower.match_end == self._log.end:
            self.letters.append(Letter(self.heir, TakeOver(self._me, self.term)))
