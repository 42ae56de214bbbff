"""One voter's mind. Messages, proposals and time go in; `ready` says what to save, to send and to apply.

    follower ---> candidate   the leader was silent for an election timeout; first a rehearsal, then the election
    candidate --> leader      a majority voted for it
    candidate --> follower    somebody else leads, or a later term began; a rehearsal that fails is tried again
    leader -----> follower    a later term began, or a majority was silent for an election timeout

Whoever runs it calls `ready` after each step, sends the letters, saves and flushes what it is told to, calls `flushed`,
and `ready` again. While something is being flushed, steps may go on; what follows from them is in the next `ready`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from headrace.model.errors import ErrorCode, Refusal
from headrace.raft.leadership import Leadership
from headrace.raft.log import Entry, Snapshot, Term
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    Letter,
    Message,
    RequestVote,
    TakeOver,
    VoteAnswer,
)
from headrace.raft.ready import Ballot, Readable, Ready, Role, Saving
from headrace.raft.unsaved import Pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import RaftLog
    from headrace.raft.membership import Membership, Replica

NO_OP: Final = b""
"""The first entry of a leadership: only an entry of its own term tells a leader what is committed."""


@dataclass(frozen=True, slots=True)
class Timing:
    heartbeat_ms: int = 200
    election_min_ms: int = 1000
    """So long a leader may be silent. Several heartbeats: one lost message must not cost an election."""
    election_max_ms: int = 2000
    """Each waits a time of its own between the two, so that they rarely stand against each other."""

    @classmethod
    def of(cls, election_timeout_ms: int) -> Timing:
        """Five heartbeats in a timeout, and at most twice the timeout until somebody stands."""
        return cls(max(1, election_timeout_ms // 5), election_timeout_ms, 2 * election_timeout_ms)


class _Campaign:
    """An election that this node stands in, or its rehearsal."""

    def __init__(self, *, is_rehearsal: bool) -> None:
        self.is_rehearsal = is_rehearsal
        self.granted: set[NodeId] = set()


class RaftNode:
    def __init__(
        self,
        me: Replica,
        log: RaftLog,
        ballot: Ballot,
        *,
        now_ms: int,
        chance: Callable[[], float],
        timing: Timing | None = None,
    ) -> None:
        """`log` and `ballot` as they were found on the disk. `chance` gives numbers from 0 up to 1."""
        self.me = me
        self.log = log
        self.timing = timing or Timing()
        self._chance = chance
        self._ballot = ballot
        self._pending = Pending(ballot)
        self._leader: NodeId | None = None
        self._campaign: _Campaign | None = None
        self._leadership: Leadership | None = None
        self._heard_ms = now_ms - self.timing.election_min_ms  # nobody has been heard: votes may be given at once
        self._election_at_ms = 0
        self._beat_at_ms = 0
        self._restored: Snapshot | None = None
        self._committed: list[Entry] = []
        self._readable: list[Readable] = []
        self._lost_reads: list[object] = []
        self._relapsed: list[NodeId] = []
        self._reported = (self.role, self.term, self.get_leader())
        self._wait_for_leader(now_ms)

    # ---- what it knows

    @property
    def term(self) -> Term:
        return self._ballot.term

    @property
    def role(self) -> Role:
        if self._leadership is not None:
            return Role.LEADER
        return Role.FOLLOWER if self._campaign is None else Role.CANDIDATE

    @property
    def membership(self) -> Membership:
        return self.log.membership

    def get_leader(self) -> NodeId | None:
        """Who leads in this term, as far as is known here."""
        return self.me.node_id if self._leadership is not None else self._leader

    @property
    def leadership(self) -> Leadership | None:
        """For looking at: how far each follower is."""
        return self._leadership

    # ---- time

    def next_deadline_ms(self) -> int:
        return self._beat_at_ms if self._leadership is not None else self._election_at_ms

    def tick(self, now_ms: int) -> None:
        if self._leadership is not None:
            self._tick_leader(self._leadership, now_ms)
        elif now_ms >= self._election_at_ms:
            self._wait_for_leader(now_ms)
            if self.log.may_stand(self.me):
                self._stand(is_rehearsal=True, now_ms=now_ms)

    def _tick_leader(self, leadership: Leadership, now_ms: int) -> None:
        if not leadership.has_quorum(now_ms - self.timing.election_max_ms):
            # Cut off, perhaps: a majority may have another leader by now. Nobody must wait for our decisions.
            self._follow(None, now_ms)
            return
        leadership.keep_if_heir_failed(now_ms)
        self._name_disks(leadership, now_ms)
        if now_ms >= leadership.beaten_ms + self.timing.heartbeat_ms:  # a read asks everybody as well
            leadership.beat(now_ms)
        self._beat_at_ms = leadership.beaten_ms + self.timing.heartbeat_ms

    def _name_disks(self, leadership: Leadership, now_ms: int) -> None:
        """Tie voters to the disks they answer with, once they are known."""
        known = self.membership.knowing(leadership.known_replicas())
        if known != self.membership and self._may_change_membership(leadership):
            self._write_membership(leadership, known, now_ms)

    def _wait_for_leader(self, now_ms: int) -> None:
        spread_ms = self.timing.election_max_ms - self.timing.election_min_ms
        self._election_at_ms = now_ms + self.timing.election_min_ms + int(spread_ms * self._chance())

    def suspect(self, node_id: NodeId, now_ms: int) -> None:
        """The leader's process has ended, somebody says. If that is wrong, its next message shows it; if it is right,
        nobody waits for an election timeout. All hear of it at once, so they take turns: two that stand together share
        the votes, and then everybody waits for a timeout after all."""
        if self._leadership is None and self._leader == node_id:
            self._leader = None
            others_first = sum(other < self.me.node_id for other in self.membership.voter_ids if other != node_id)
            self._election_at_ms = now_ms + int(self.timing.heartbeat_ms * (others_first + self._chance() / 4))

    def forget_votes(self, me: Replica, now_ms: int) -> None:
        """This node's disk has not kept what it promised, and counts as another from now on: it neither stands nor
        votes before the others have taken it in again."""
        self.me = me
        self._follow(None, now_ms)

    # ---- what it can be asked to do

    def propose(self, payload: bytes, width: int = 1) -> Offset:
        """Write an entry of so many offsets. Returns its end: once that is committed in this term, it is decided."""
        leadership = self._need_leadership()
        assert payload != NO_OP, "an empty entry is a leader's own"
        entry = leadership.propose(payload, width)
        self._pending.append([entry])
        leadership.send_all()
        return entry.end

    def change_membership(self, membership: Membership, now_ms: int) -> Offset:
        """One node at a time, and the next only when the last is decided."""
        leadership = self._need_leadership()
        if not self._may_change_membership(leadership):
            raise Refusal(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                "another change of the voters is not decided yet; try again in a moment",
            )
        leadership.expect_safe(membership, now_ms - self.timing.election_max_ms)
        return self._write_membership(leadership, membership, now_ms)

    def _may_change_membership(self, leadership: Leadership) -> bool:
        # Without an entry of our own term decided, a change that an earlier leader wrote may still come back.
        return self.log.is_membership_committed and leadership.has_committed()

    def _write_membership(self, leadership: Leadership, membership: Membership, now_ms: int) -> Offset:
        entry = leadership.propose(membership, 1)
        self._pending.append([entry])
        leadership.follow_membership(now_ms)
        leadership.send_all()
        return entry.end

    def read(self, token: object, now_ms: int) -> None:
        """`readable` names the token once the state may be shown that this node will have reached by then."""
        self._need_leadership().read(token, now_ms)

    def hand_over(self, heir: NodeId, now_ms: int) -> None:
        """Let another voter lead. Proposals are refused meanwhile; if it takes too long, the leadership goes on."""
        leadership = self._need_leadership()
        if heir not in self.membership.voter_ids:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"node {heir} is no voter: {list(self.membership.voter_ids)} are")
        if heir != self.me.node_id:
            leadership.hand_over_to(heir, now_ms + self.timing.election_max_ms)

    def compact(self, snapshot: Snapshot, keep_from: Offset) -> None:
        """The house has a snapshot on disk; what it stands for need not be kept. A few entries may be, for the slow."""
        if snapshot.end > self.log.snapshot.end:  # otherwise a leader's own was installed meanwhile
            self.log.compact(snapshot, keep_from)

    def _need_leadership(self) -> Leadership:
        if self._leadership is None:
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.me.node_id} does not lead the metadata log")
        if self._leadership.heir is not None:
            raise Refusal(
                ErrorCode.NOT_CONTROLLER,
                f"node {self.me.node_id} is handing the metadata log over to node {self._leadership.heir}",
            )
        return self._leadership

    # ---- messages

    def step(self, message: Message, now_ms: int) -> None:
        if message.term > self.term and not self._is_mere_talk(message, now_ms):
            self._enter_term(message.term, now_ms)
        match message:
            case RequestVote():
                self.request_vote(message, now_ms)
            case VoteAnswer():
                self._vote_answered(message, now_ms)
            case AppendEntries():
                self.append_entries(message, now_ms)
            case InstallSnapshot():
                self._install_snapshot(message, now_ms)
            case AppendAnswer():
                self._append_answered(message, now_ms)
            case TakeOver():
                if message.term == self.term and self.log.may_stand(self.me) and self._leadership is None:
                    self._stand(is_rehearsal=False, now_ms=now_ms, is_appointed=True)
            case _:
                assert_never(message)

    def _is_mere_talk(self, message: Message, now_ms: int) -> bool:
        """Whether a later term is no reason to leave ours: it is a rehearsal, or we are loyal to a leader."""
        match message:
            case RequestVote():
                return message.is_rehearsal or self._is_loyal(message, now_ms)
            case VoteAnswer():
                return message.is_rehearsal and message.is_granted
            case _:
                return False

    def _is_loyal(self, message: RequestVote, now_ms: int) -> bool:
        """While a leader is heard, nobody is helped to replace it: a node that was cut off must not disturb."""
        is_led = self._leadership is not None or (
            self._leader is not None and now_ms - self._heard_ms < self.timing.election_min_ms
        )
        return is_led and not message.is_appointed

    def _enter_term(self, term: Term, now_ms: int) -> None:
        assert term > self.term
        self._ballot = Ballot(term)
        self._follow(None, now_ms)

    def _follow(self, leader: NodeId | None, now_ms: int) -> None:
        if self._leadership is not None:
            self._collect(self._leadership)
            self._lost_reads += self._leadership.lost_reads()
            self._leadership = None
        self._campaign = None
        self._leader = leader
        self._wait_for_leader(now_ms)

    # ---- elections

    def _stand(self, *, is_rehearsal: bool, now_ms: int, is_appointed: bool = False) -> None:
        self._leader = None
        self._campaign = _Campaign(is_rehearsal=is_rehearsal)
        term = Term(self.term + 1)
        if not is_rehearsal:
            self._ballot = Ballot(term, self.me)
        request = RequestVote(self.me, term, self.log.last_term, self.log.end, is_rehearsal, is_appointed)
        others = [node_id for node_id in self.membership.voter_ids if node_id != self.me.node_id]
        # Our own vote must be on the disk before anybody hears of it: we may crash and vote for another.
        outbox = self._pending.letters if is_rehearsal else self._pending.promises
        outbox += [Letter(node_id, request) for node_id in others]
        self._wait_for_leader(now_ms)
        self._count_vote(self.me, now_ms)

    def request_vote(self, message: RequestVote, now_ms: int) -> None:
        """Somebody stands for election. Whether our vote counts is for them to know: the news may not be here yet."""
        term = message.term if message.is_rehearsal else self.term
        is_granted = (
            message.term == term
            and (message.term > self.term or not message.is_rehearsal)
            and (message.is_rehearsal or self._ballot.vote in {None, message.source})
            and self.log.is_covered_by(message.last_term, message.end)
            and not self._is_loyal(message, now_ms)
        )
        if is_granted and not message.is_rehearsal:
            self._ballot = Ballot(self.term, message.source)
            self._wait_for_leader(now_ms)
        answer = VoteAnswer(self.me, message.term if is_granted else self.term, is_granted, message.is_rehearsal)
        self._pending.promises.append(Letter(message.source.node_id, answer))

    def _vote_answered(self, message: VoteAnswer, now_ms: int) -> None:
        campaign = self._campaign
        if campaign is None or campaign.is_rehearsal != message.is_rehearsal or not message.is_granted:
            return
        standing_for = Term(self.term + 1) if campaign.is_rehearsal else self.term
        if message.term == standing_for:
            self._count_vote(message.source, now_ms)

    def _count_vote(self, voter: Replica, now_ms: int) -> None:
        campaign = self._campaign
        assert campaign is not None
        if self.membership.is_voter(voter):
            campaign.granted.add(voter.node_id)
        if not self.membership.is_majority(campaign.granted):
            return
        if campaign.is_rehearsal:
            self._stand(is_rehearsal=False, now_ms=now_ms)
        else:
            self._lead(now_ms)

    def _lead(self, now_ms: int) -> None:
        self._campaign = None
        self._leader = None
        self._leadership = leadership = Leadership(self.me, self.term, self.log, now_ms)
        self._pending.append([leadership.propose(NO_OP, 1)])
        self._beat_at_ms = now_ms + self.timing.heartbeat_ms
        leadership.beat(now_ms)

    # ---- following

    def append_entries(self, message: AppendEntries, now_ms: int) -> None:
        """The leader's log goes on so."""
        if message.term < self.term:
            self._answer(message, is_accepted=False)
            return
        self._heard_leader(message, now_ms)
        log = self.log
        if message.previous_end > log.commit_end and not log.has(message.previous_end, message.previous_term):
            self._answer(message, is_accepted=False)
            return
        fresh = self._without_known(message.entries)
        if fresh and fresh[0].base < log.end:
            end = log.end
            log.truncate(fresh[0].base)  # first: it lets nobody cut what is committed
            self._pending.truncate(fresh[0].base, end)
        log.append(fresh)
        self._pending.append(fresh)
        agreed_end = max(message.entries[-1].end if message.entries else message.previous_end, log.commit_end)
        self._commit(min(message.commit_end, agreed_end))
        self._answer(message, is_accepted=True, end=agreed_end)

    def _without_known(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """From the first entry on that is not in our log. What is committed here is in the leader's log as well."""
        for place, entry in enumerate(entries):
            if entry.end > self.log.commit_end and not self.log.has(entry.end, entry.term):
                return entries[place:]
        return ()

    def _install_snapshot(self, message: InstallSnapshot, now_ms: int) -> None:
        if message.term < self.term:
            self._answer(message, is_accepted=False)
            return
        self._heard_leader(message, now_ms)
        snapshot = message.snapshot
        if self.log.has(snapshot.end, snapshot.term):
            self._commit(snapshot.end)  # it came late: what follows here may have been promised to the leader
        elif snapshot.end > self.log.commit_end:
            self._pending.restore(snapshot, self.log.commit_end)
            self.log.restore(snapshot)
            self._restored = snapshot
            self._committed = []
        self._answer(message, is_accepted=True, end=self.log.commit_end)

    def _heard_leader(self, message: AppendEntries | InstallSnapshot, now_ms: int) -> None:
        assert self._leadership is None, f"two leaders in term {self.term}: {self.me} and {message.source}"
        assert self._leader in {None, message.source.node_id}, f"two leaders in term {self.term}"
        self._follow(message.source.node_id, now_ms)
        self._heard_ms = now_ms

    def _answer(
        self, message: AppendEntries | InstallSnapshot, *, is_accepted: bool, end: Offset | None = None
    ) -> None:
        hint_term = self.log.last_term
        asked_end = message.previous_end if isinstance(message, AppendEntries) else message.snapshot.end
        if isinstance(message, AppendEntries) and not is_accepted:
            hint_term, end = self.log.end_of_term(message.previous_term)
        answer = AppendAnswer(
            self.me,
            self.term,
            is_accepted,
            self.log.end if end is None else end,
            hint_term,
            asked_end,
            message.session,
            message.round,
        )
        self._pending.promises.append(Letter(message.source.node_id, answer))

    # ---- leading

    def _append_answered(self, message: AppendAnswer, now_ms: int) -> None:
        leadership = self._leadership
        if leadership is None or message.term != self.term:
            return
        leadership.answered(message, now_ms)
        self._commit_agreed(leadership, now_ms)
        leadership.send_all()

    def _commit_agreed(self, leadership: Leadership, now_ms: int) -> None:
        end = leadership.agreed_end()
        if end <= self.log.commit_end:
            return
        self._commit(end)
        leadership.committed(now_ms)
        if not self.membership.is_voter(self.me) and self.log.is_membership_committed:
            # Voted out, and that is decided. The last beat tells the others so, and one of them need not wait.
            leadership.beat(now_ms)
            leadership.bequeath()
            self._follow(None, now_ms)

    def _commit(self, end: Offset) -> None:
        if end > self.log.commit_end:
            self._committed += self.log.commit(end)

    # ---- what is to be done

    def ready(self) -> Ready | None:
        """Everything that followed from what went in since the last call. None: nothing."""
        if self._leadership is not None:
            self._collect(self._leadership)
        saving, letters = self._pending.take(self._ballot, self.log.end)
        standing = (self.role, self.term, self.get_leader())
        is_news = not saving.is_empty or standing != self._reported
        if not (is_news or letters or self._committed or self._readable or self._lost_reads):
            return None
        ready = Ready(
            saving,
            tuple(letters),
            self._restored,
            tuple(self._committed),
            tuple(self._readable),
            tuple(self._lost_reads),
            tuple(self._relapsed),
            *standing,
        )
        self._restored, self._reported = None, standing
        self._committed, self._readable, self._lost_reads, self._relapsed = [], [], [], []
        return ready

    def _collect(self, leadership: Leadership) -> None:
        self._pending.letters += leadership.letters
        self._readable += leadership.readable
        self._relapsed += leadership.relapsed
        leadership.letters, leadership.readable, leadership.relapsed = [], [], []

    def flushed(self, saving: Saving, now_ms: int) -> None:
        """It is on the disk. Savings are flushed in the order in which they were given."""
        self.log.flushed_end = max(self.log.flushed_end, self._pending.flushed(saving))
        leadership = self._leadership
        if leadership is not None:
            self._commit_agreed(leadership, now_ms)
            leadership.send_all()
