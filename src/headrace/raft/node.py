"""One voter. Messages, proposals and time go in; `ready` says what to save, to send and to apply.

    follower ---> candidate   the leader was silent for an election timeout; first a pre-vote, then the election
    candidate --> leader      a majority voted for it
    candidate --> follower    somebody else leads, or a later term began; a pre-vote that fails is tried again
    leader -----> follower    a later term began, or a majority was silent for an election timeout

Each role is a class of its own: `FollowerState`, `CandidateState`, `LeaderState`. This one has what outlives them.

Whoever runs it calls `ready` after each step, sends the messages, saves and flushes what it is told to, calls
`flushed`, and `ready` again. While something is being flushed, steps may go on; what follows from them is in the
next `ready`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from headrace.model.errors import ErrorCode, Refusal
from headrace.raft.candidate_state import CandidateState
from headrace.raft.follower_state import FollowerState, superseded
from headrace.raft.leader_state import LeaderState
from headrace.raft.log import Term
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    Message,
    OutboundMessage,
    RequestVote,
    TakeOver,
    VoteAnswer,
)
from headrace.raft.next_ready import NextReady
from headrace.raft.ready import HardState, Ready, Role, Saving, SoftState
from headrace.raft.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.names import NodeId, Offset
    from headrace.raft.log import RaftLog, Snapshot
    from headrace.raft.membership import Membership, ReplicaKey
    from headrace.raft.progress import FollowerStatus
    from headrace.raft.view import LogView

NO_OP: Final = b""
"""The first entry of a leader: only an entry of its own term tells it what is committed."""


class RaftNode:
    def __init__(
        self,
        me: ReplicaKey,
        log: RaftLog,
        hard_state: HardState,
        *,
        now_ms: int,
        chance: Callable[[], float],
        timing: Timing | None = None,
    ) -> None:
        """`log` and `hard_state` as they were found on the disk. `chance` gives numbers from 0 up to 1."""
        self.me = me
        self.timing = timing or Timing()
        self._log = log
        self._chance = chance
        self._hard_state = hard_state
        self._next = NextReady(log, hard_state, SoftState(Role.FOLLOWER, hard_state.term, None))
        self._state: FollowerState | CandidateState | LeaderState = FollowerState(me, self.term, log, self._next)
        self._election_at_ms = 0
        self._heartbeat_at_ms = 0
        self._wait_for_leader(now_ms)

    # ---- what it knows

    @property
    def term(self) -> Term:
        return self._hard_state.term

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def log(self) -> LogView:
        return self._log

    @property
    def membership(self) -> Membership:
        return self._log.membership

    def get_leader(self) -> NodeId | None:
        """Who leads in this term, as far as is known here."""
        return self._state.leader

    @property
    def is_transferring_leadership(self) -> bool:
        return isinstance(self._state, LeaderState) and self._state.transferee is not None

    def followers(self) -> dict[NodeId, FollowerStatus]:
        """How far everybody is who has answered this leader; empty where another one leads."""
        return self._state.followers() if isinstance(self._state, LeaderState) else {}

    # ---- time

    def next_deadline_ms(self) -> int:
        return self._heartbeat_at_ms if isinstance(self._state, LeaderState) else self._election_at_ms

    def tick(self, now_ms: int) -> None:
        if isinstance(self._state, LeaderState):
            self._tick_leader(self._state, now_ms)
        elif now_ms >= self._election_at_ms:
            self._wait_for_leader(now_ms)
            if self._log.may_stand(self.me):
                self._stand(is_pre_vote=True, now_ms=now_ms)

    def _tick_leader(self, leader: LeaderState, now_ms: int) -> None:
        if not leader.has_quorum(now_ms - self.timing.election_max_ms):
            # Cut off, perhaps: a majority may have another leader by now. Nobody must wait for our decisions.
            self._follow(None, now_ms)
            return
        leader.give_up_late_transfer(now_ms)
        leader.note_disks(now_ms)
        if now_ms >= leader.last_heartbeat_ms + self.timing.heartbeat_ms:  # a read asks everybody as well
            leader.send_heartbeats(now_ms)
        self._heartbeat_at_ms = leader.last_heartbeat_ms + self.timing.heartbeat_ms

    def _wait_for_leader(self, now_ms: int) -> None:
        spread_ms = self.timing.election_max_ms - self.timing.election_min_ms
        self._election_at_ms = now_ms + self.timing.election_min_ms + int(spread_ms * self._chance())

    def suspect(self, node_id: NodeId, now_ms: int) -> None:
        """Somebody says that the leader's process has ended. If that is wrong, its next message shows it; if it is
        right, nobody waits for an election timeout. All hear of it at once, so they take turns: two that stand together
        share the votes, and then everybody waits for a timeout after all."""
        if self._state.leader == node_id and self.role is not Role.LEADER:
            self._state = FollowerState(self.me, self.term, self._log, self._next)
            others_first = sum(other < self.me.node_id for other in self.membership.voter_ids if other != node_id)
            self._election_at_ms = now_ms + int(self.timing.heartbeat_ms * (others_first + self._chance() / 4))

    def forget_votes(self, me: ReplicaKey, now_ms: int) -> None:
        """This node's disk has not kept what it promised, and counts as another from now on: it neither stands nor
        votes before the others have taken it in again."""
        self.me = me
        self._follow(None, now_ms)

    # ---- what it can be asked to do

    def bootstrap(self, membership: Membership) -> None:
        """Nothing was ever written, and nobody has said who votes: with these the log begins."""
        self._log.bootstrap(membership)

    def propose(self, payload: bytes, width: int = 1) -> Offset:
        """Write an entry of so many offsets. Returns its end: once that is committed in this term, it is decided."""
        leader = self._expect_leader()
        assert payload != NO_OP, "an empty entry is a leader's own"
        return leader.propose(payload, width)

    def change_membership(self, membership: Membership, now_ms: int) -> Offset:
        """One node at a time, and the next only when the last is decided."""
        return self._expect_leader().change_membership(membership, now_ms - self.timing.election_max_ms, now_ms)

    def read(self, token: object, now_ms: int) -> None:
        """A `ReadState` has the token once the state may be shown that this node will have reached by then."""
        self._expect_leader().read(token, now_ms)

    def transfer_leadership(self, transferee: NodeId, now_ms: int) -> None:
        """Let another voter lead. Proposals are refused meanwhile; if it takes too long, this node leads on."""
        self._expect_leader().transfer_to(transferee, now_ms + self.timing.election_max_ms)

    def compact(self, snapshot: Snapshot, keep_from: Offset) -> None:
        """A snapshot is on disk; what it stands for need not be kept. A few entries may be, for those who are slow."""
        if snapshot.end > self._log.snapshot.end:  # otherwise a leader's own was installed meanwhile
            self._log.compact(snapshot, keep_from)

    def _expect_leader(self) -> LeaderState:
        leader = self._state
        if not isinstance(leader, LeaderState):
            raise Refusal(ErrorCode.NOT_CONTROLLER, f"node {self.me.node_id} does not lead the metadata log")
        if leader.transferee is not None:
            raise Refusal(
                ErrorCode.NOT_CONTROLLER,
                f"node {self.me.node_id} is handing the metadata log over to node {leader.transferee}",
            )
        return leader

    # ---- messages

    def step(self, message: Message, now_ms: int) -> None:
        if message.term > self.term and not self._leaves_term_alone(message, now_ms):
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
                self._take_over(message, now_ms)
            case _:
                assert_never(message)

    def _leaves_term_alone(self, message: Message, now_ms: int) -> bool:
        """Whether a later term is no reason to leave ours: it is of a pre-vote, or we hear our leader."""
        match message:
            case RequestVote():
                return message.is_pre_vote or self._keeps_its_leader(message, now_ms)
            case VoteAnswer():
                return message.is_pre_vote and message.is_granted
            case _:
                return False

    def _keeps_its_leader(self, message: RequestVote, now_ms: int) -> bool:
        """While a leader is heard, nobody is helped to replace it: a node that was cut off must not disturb."""
        if message.is_transfer or isinstance(self._state, CandidateState):
            return False
        return isinstance(self._state, LeaderState) or self._state.has_heard_leader(
            now_ms - self.timing.election_min_ms
        )

    def _enter_term(self, term: Term, now_ms: int) -> None:
        assert term > self.term
        self._hard_state = HardState(term)
        self._follow(None, now_ms)

    def _follow(self, leader: NodeId | None, now_ms: int) -> None:
        if isinstance(self._state, LeaderState):
            self._next.lost_reads += self._state.lost_reads()
        self._state = FollowerState(self.me, self.term, self._log, self._next, leader, now_ms)
        self._wait_for_leader(now_ms)

    # ---- elections

    def _stand(self, *, is_pre_vote: bool, now_ms: int, is_transfer: bool = False) -> None:
        term = Term(self.term + 1)
        self._state = CandidateState(term, is_pre_vote=is_pre_vote)
        if not is_pre_vote:
            self._hard_state = HardState(term, self.me)
        request = RequestVote(self.me, term, self._log.last_term, self._log.end, is_pre_vote, is_transfer)
        others = [node_id for node_id in self.membership.voter_ids if node_id != self.me.node_id]
        # Our own vote must be on the disk before anybody hears of it: we may crash and vote for another.
        outbox = self._next.unsaved.messages if is_pre_vote else self._next.unsaved.promises
        outbox += [OutboundMessage(node_id, request) for node_id in others]
        self._wait_for_leader(now_ms)
        self._count_vote(self._state, self.me, now_ms)

    def _take_over(self, message: TakeOver, now_ms: int) -> None:
        is_leader = isinstance(self._state, LeaderState)
        if message.term == self.term and self._log.may_stand(self.me) and not is_leader:
            self._stand(is_pre_vote=False, now_ms=now_ms, is_transfer=True)

    def request_vote(self, message: RequestVote, now_ms: int) -> None:
        """Somebody stands for election. Whether our vote counts is for them to know: the news may not be here yet."""
        term = message.term if message.is_pre_vote else self.term
        is_granted = (
            message.term == term
            and (message.term > self.term or not message.is_pre_vote)
            and (message.is_pre_vote or self._hard_state.vote in {None, message.source})
            and self._log.is_covered_by(message.last_term, message.end)
            and not self._keeps_its_leader(message, now_ms)
        )
        if is_granted and not message.is_pre_vote:
            self._hard_state = HardState(self.term, message.source)
            self._wait_for_leader(now_ms)
        answer = VoteAnswer(self.me, message.term if is_granted else self.term, is_granted, message.is_pre_vote)
        self._promise(message, answer)

    def _vote_answered(self, message: VoteAnswer, now_ms: int) -> None:
        if isinstance(self._state, CandidateState) and self._state.is_given(message):
            self._count_vote(self._state, message.source, now_ms)

    def _count_vote(self, candidate: CandidateState, voter: ReplicaKey, now_ms: int) -> None:
        if not candidate.count(voter, self.membership):
            return
        if candidate.is_pre_vote:
            self._stand(is_pre_vote=False, now_ms=now_ms)
        else:
            self._lead(now_ms)

    def _lead(self, now_ms: int) -> None:
        self._state = leader = LeaderState(self.me, self.term, self._log, self._next, now_ms)
        leader.append(NO_OP, 1)
        self._heartbeat_at_ms = now_ms + self.timing.heartbeat_ms
        leader.send_heartbeats(now_ms)

    # ---- following

    def append_entries(self, message: AppendEntries, now_ms: int) -> None:
        """The leader's log goes on so."""
        if message.term < self.term:
            self._promise(message, superseded(self.me, self.term))
        else:
            self._promise(message, self._follow_sender(message, now_ms).append(message))

    def _install_snapshot(self, message: InstallSnapshot, now_ms: int) -> None:
        if message.term < self.term:
            self._promise(message, superseded(self.me, self.term))
        else:
            self._promise(message, self._follow_sender(message, now_ms).install(message))

    def _follow_sender(self, message: AppendEntries | InstallSnapshot, now_ms: int) -> FollowerState:
        leader = message.source.node_id
        assert self._state.leader in {None, leader}, f"two leaders in term {self.term}: {self._state.leader}, {leader}"
        self._follow(leader, now_ms)
        assert isinstance(self._state, FollowerState)
        return self._state

    def _promise(self, message: Message, answer: VoteAnswer | AppendAnswer) -> None:
        """It leaves once everything that it speaks of is on the disk."""
        self._next.unsaved.promises.append(OutboundMessage(message.source.node_id, answer))

    # ---- leading

    def _append_answered(self, message: AppendAnswer, now_ms: int) -> None:
        leader = self._state
        if not isinstance(leader, LeaderState) or message.term != self.term:
            return
        leader.answered(message, now_ms)
        self._lead_on(leader, now_ms)

    def _lead_on(self, leader: LeaderState, now_ms: int) -> None:
        """More may be on a majority's disks now: commit that, and send what each may get next."""
        end = leader.agreed_end()
        if end > self._log.commit_end:
            self._next.commit(end)
            leader.committed(now_ms)
            if not self.membership.is_voter(self.me) and self._log.is_membership_committed:
                # Voted out, and that is decided. The last heartbeat tells the others so, and one of them need not wait.
                leader.send_heartbeats(now_ms)
                leader.leave_to_anybody()
                self._follow(None, now_ms)
                return
        leader.send_all()

    # ---- what is to be done

    def ready(self) -> Ready | None:
        """Everything that followed from what went in since the last call. None: nothing."""
        return self._next.take(self._hard_state, SoftState(self.role, self.term, self.get_leader()))

    def flushed(self, saving: Saving, now_ms: int) -> None:
        """It is on the disk. Savings are flushed in the order in which they were given."""
        self._next.flushed(saving)
        if isinstance(self._state, LeaderState):
            self._lead_on(self._state, now_ms)
