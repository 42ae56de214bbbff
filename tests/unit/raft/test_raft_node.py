"""What whoever runs a RaftNode may rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NodeId, Offset
from headrace.raft import leader_state
from headrace.raft.log import NO_TERM, Entry, RaftLog, Snapshot, Term
from headrace.raft.membership import Membership, ReplicaKey, Voter
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    OutboundMessage,
    RequestVote,
    VoteAnswer,
)
from headrace.raft.node import RaftNode
from headrace.raft.progress import IN_FLIGHT_MAX
from headrace.raft.ready import HardState, Ready, Role

ME, OTHER, THIRD = ReplicaKey(NodeId(1), b"one"), ReplicaKey(NodeId(2), b"two"), ReplicaKey(NodeId(3), b"three")
TWO = Membership((Voter(*ME), Voter(*OTHER)))
THREE = Membership((Voter(*ME), Voter(*OTHER), Voter(*THIRD)))


def node_in(membership: Membership, me: ReplicaKey = ME) -> RaftNode:
    log = RaftLog(Snapshot(Offset(0), NO_TERM, membership, b""))
    return RaftNode(me, log, HardState(), now_ms=0, chance=lambda: 0.0)


def settle(node: RaftNode, now_ms: int) -> list[OutboundMessage]:
    """Flush everything at once; returns what was said."""
    messages: list[OutboundMessage] = []
    while (ready := node.ready()) is not None:
        messages += ready.messages
        if not ready.saving.is_empty:
            node.flushed(ready.saving, now_ms)
    return messages


def leader(membership: Membership = THREE) -> RaftNode:
    node = node_in(membership)
    node.tick(1000)
    settle(node, 1000)
    node.step(VoteAnswer(OTHER, Term(1), is_granted=True, is_pre_vote=True), 1000)
    settle(node, 1000)
    node.step(VoteAnswer(OTHER, Term(1), is_granted=True, is_pre_vote=False), 1000)
    assert node.role is Role.LEADER
    return node


def accept(message: AppendEntries, source: ReplicaKey = OTHER) -> AppendAnswer:
    end = message.entries[-1].end if message.entries else message.previous_end
    return AppendAnswer(
        source, message.term, True, end, message.previous_term, message.previous_end, message.session, message.round
    )


def appends_to(messages: list[OutboundMessage], target: ReplicaKey) -> list[AppendEntries]:
    found = [outbound.message for outbound in messages if outbound.target == target.node_id]
    return [message for message in found if isinstance(message, AppendEntries)]


def taken(node: RaftNode) -> Ready:
    ready = node.ready()
    assert ready is not None
    return ready


def test_a_vote_waits_for_its_saving_and_for_all_before_it() -> None:
    node = node_in(THREE)
    request = RequestVote(OTHER, Term(1), NO_TERM, Offset(0), is_pre_vote=False)
    node.step(request, 0)
    first = taken(node)
    assert first.saving.hard_state == HardState(Term(1), OTHER)
    assert not first.messages

    node.step(request, 0)  # the same again, while the disk is busy
    assert node.ready() is None, "its answer promises what is not saved yet"

    node.flushed(first.saving, 0)
    answers = [outbound.message for outbound in taken(node).messages]
    assert [isinstance(answer, VoteAnswer) and answer.is_granted for answer in answers] == [True, True]


def test_savings_are_flushed_in_order() -> None:
    node = leader()
    first = taken(node).saving
    node.propose(b"x")
    second = taken(node).saving
    with pytest.raises(AssertionError, match="in the order"):
        node.flushed(second, 1000)
    assert first != second


def test_a_leader_that_resigns_says_so_though_nothing_is_to_be_sent() -> None:
    node = leader()
    settle(node, 1000)
    node.tick(1000 + 2001)
    ready = taken(node)
    assert (ready.role, ready.term, ready.leader) == (Role.FOLLOWER, 1, None)
    assert node.ready() is None


def test_a_read_that_was_confirmed_is_answered_though_the_leadership_ends_in_the_same_step() -> None:
    node = leader()
    probes = settle(node, 1000)
    for follower in (OTHER, THIRD):
        node.step(accept(appends_to(probes, follower)[-1], follower), 1000)
    settle(node, 1000)
    node.change_membership(THREE.without(ME.node_id), 1000)
    settle(node, 1000)
    node.read("token", 1000)
    beats = settle(node, 1000)
    for follower in (OTHER, THIRD):
        assert node.role is Role.LEADER
        node.step(accept(appends_to(beats, follower)[-1], follower), 1000)
    assert node.role is Role.FOLLOWER, "voted out"
    ready = taken(node)
    assert [read_state.token for read_state in ready.read_states] == ["token"]
    assert not ready.lost_reads


def test_a_full_window_opens_again_when_only_the_last_answer_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_state, "MESSAGE_BYTES", 1)
    node = leader()
    node.step(accept(appends_to(settle(node, 1000), OTHER)[-1]), 1000)
    settle(node, 1000)
    for _ in range(IN_FLIGHT_MAX + 5):
        node.propose(b"x")
    sent = appends_to(settle(node, 1000), OTHER)
    assert len(sent) == IN_FLIGHT_MAX
    node.step(accept(sent[-1]), 1000)
    assert len([message for message in appends_to(settle(node, 1000), OTHER) if message.entries]) == 5


def test_many_refusals_after_one_lost_message_cause_one_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_state, "MESSAGE_BYTES", 1)
    node = leader()
    node.step(accept(appends_to(settle(node, 1000), OTHER)[-1]), 1000)
    settle(node, 1000)
    for _ in range(4):
        node.propose(b"x")
    sent = appends_to(settle(node, 1000), OTHER)
    for message in sent[1:]:
        refusal = replace(accept(message), is_accepted=False, end=sent[0].previous_end)
        node.step(refusal, 1000)
    repeated = [message for message in appends_to(settle(node, 1000), OTHER) if message.entries]
    assert [message.previous_end for message in repeated] == [sent[0].previous_end]


def match_end(node: RaftNode, follower: ReplicaKey) -> int:
    status = node.followers().get(follower.node_id)
    return 0 if status is None else status.match_end


def test_answers_of_an_earlier_session_count_for_nothing() -> None:
    node = leader()
    probe = appends_to(settle(node, 1000), OTHER)[-1]
    answer = accept(probe)
    node.step(replace(answer, end=Offset(0)), 1000)
    node.step(replace(answer, source=ReplicaKey(OTHER.node_id, b"another disk")), 1000)
    node.step(answer, 1000)  # the first disk's word, late
    assert match_end(node, OTHER) == 0
    assert node.log.commit_end == 0


def test_a_follower_that_claims_more_than_the_leader_has_counts_for_nothing() -> None:
    node = leader()
    claim = replace(accept(appends_to(settle(node, 1000), OTHER)[-1]), end=Offset(node.log.end + 1))
    node.step(claim, 1000)
    assert match_end(node, OTHER) == 0
    assert node.log.commit_end == 0
    node.tick(1000 + node.timing.heartbeat_ms)
    assert settle(node, 1000 + node.timing.heartbeat_ms), "it goes on"
    node.step(replace(claim, end=node.log.end), 1000 + node.timing.heartbeat_ms)
    assert node.log.commit_end == node.log.end


def test_whoever_wants_to_cut_what_is_committed_does_not_reach_the_disk() -> None:
    node = node_in(THREE)
    entries = (Entry(Term(1), Offset(0), Offset(1), b"a"), Entry(Term(1), Offset(1), Offset(3), b"b"))
    node.step(AppendEntries(OTHER, Term(1), Offset(0), NO_TERM, entries, Offset(3), 1, 1), 0)
    settle(node, 0)
    assert node.log.commit_end == 3
    other = Entry(Term(1), Offset(1), Offset(4), b"c")
    with pytest.raises(AssertionError, match="what is committed"):
        node.step(AppendEntries(OTHER, Term(1), Offset(1), Term(1), (other,), Offset(3), 1, 2), 0)
    assert node.ready() is None, "nothing is to be saved"
    assert node.log.end == 3


def test_what_a_late_snapshot_would_replace_is_kept_if_it_goes_on_from_there() -> None:
    node = node_in(THREE)
    entries = tuple(
        Entry(Term(1), Offset(place), Offset(place + 1), payload) for place, payload in enumerate([b"a", b"b", b"c"])
    )
    node.step(AppendEntries(OTHER, Term(1), Offset(0), NO_TERM, entries, Offset(0), 1, 1), 0)
    settle(node, 0)
    node.step(InstallSnapshot(OTHER, Term(1), Snapshot(Offset(2), Term(1), THREE, b""), 1, 2), 0)
    ready = taken(node)
    assert ready.installed is None
    assert [entry.payload for entry in ready.committed] == [b"a", b"b"]
    assert node.log.end == 3, "the third was promised to the leader"


def test_a_snapshot_of_our_own_that_comes_too_late_is_passed_over() -> None:
    node = node_in(THREE)
    installed = Snapshot(Offset(9), Term(1), THREE, b"")
    node.step(InstallSnapshot(OTHER, Term(1), installed, 1, 1), 0)
    settle(node, 0)
    node.compact(Snapshot(Offset(5), Term(1), THREE, b""), Offset(5))
    assert node.log.snapshot == installed


def refused_change(node: RaftNode, membership: Membership) -> Refusal:
    with pytest.raises(Refusal) as caught:
        node.change_membership(membership, 1000)
    return caught.value


def test_membership_changes_only_when_it_is_safe() -> None:
    node = leader()
    messages = settle(node, 1000)
    assert refused_change(node, THREE).code is ErrorCode.REASSIGNMENT_IN_PROGRESS  # nothing of this term is decided
    node.step(accept(appends_to(messages, OTHER)[-1]), 1000)
    settle(node, 1000)
    assert "one at a time" in refused_change(node, Membership((Voter(*ME),))).message
    assert "one at a time" in refused_change(node, Membership()).message
    four = THREE.with_voter(ReplicaKey(NodeId(4), b"four"))
    assert "learner" in refused_change(node, four).message


def test_what_would_leave_too_few_that_answer_is_refused() -> None:
    node = leader()
    messages = settle(node, 1000)
    node.step(accept(appends_to(messages, OTHER)[-1]), 3500)
    with pytest.raises(Refusal, match="too few"):
        node.change_membership(THREE.without(OTHER.node_id), 3500)


def test_handing_over_to_itself_changes_nothing() -> None:
    node = leader()
    node.transfer_leadership(ME.node_id, 1000)
    node.propose(b"x")
    with pytest.raises(Refusal, match="no voter"):
        node.transfer_leadership(NodeId(9), 1000)


def test_a_read_is_a_heartbeat_as_well() -> None:
    node = leader()
    probes = settle(node, 1000)
    node.step(accept(appends_to(probes, OTHER)[-1]), 1000)
    settle(node, 1000)
    heartbeat_ms = node.timing.heartbeat_ms
    read_ms = 1000 + heartbeat_ms // 2
    node.read("token", read_ms)
    assert appends_to(settle(node, read_ms), THIRD)
    node.tick(1000 + heartbeat_ms)
    assert settle(node, 1000 + heartbeat_ms) == [], "everybody has just heard that it leads"
    assert node.next_deadline_ms() == read_ms + heartbeat_ms
    node.tick(read_ms + heartbeat_ms)
    assert appends_to(settle(node, read_ms + heartbeat_ms), THIRD)


def test_a_read_that_waits_for_a_voter_is_answered_when_that_voter_is_removed() -> None:
    node = leader(TWO)
    probes = settle(node, 1000)
    node.step(accept(appends_to(probes, OTHER)[-1]), 1000)
    settle(node, 1000)
    node.read("first", 1000)
    node.read("second", 1000)  # of the next round
    settle(node, 1000)
    node.change_membership(TWO.without(OTHER.node_id), 1000)
    answered = [read_state.token for read_state in taken(node).read_states]
    assert answered == ["first", "second"], "nobody is left who could answer them later"


class LeaderAgain:
    """A node that led in term 1, was replaced in term 2, and leads in term 3. What it said in term 1, in several
    rounds, comes to a follower only now, and so does the follower's answer to that."""

    def __init__(self) -> None:
        self.node, self.follower = leader(), node_in(THREE, OTHER)
        (first,) = appends_to(settle(self.node, 1000), OTHER)
        self.node.step(self.answer_to(first), 1000)
        for now_ms in (1200, 1400, 1600, 1800):
            self.node.tick(now_ms)
            self.late = appends_to(settle(self.node, now_ms), OTHER)[-1]
        self.node.step(AppendEntries(THIRD, Term(2), Offset(0), NO_TERM, (), Offset(0), 1, 1), 2000)
        self.node.tick(4000)
        settle(self.node, 4000)
        for is_pre_vote in (True, False):
            self.node.step(VoteAnswer(THIRD, Term(3), is_granted=True, is_pre_vote=is_pre_vote), 4000)
            said = settle(self.node, 4000)
        (self.first,), (to_third,) = appends_to(said, OTHER), appends_to(said, THIRD)
        self.node.step(accept(to_third, THIRD), 4000)
        settle(self.node, 4000)

    def hear_follower(self) -> None:
        self.node.step(self.answer_to(self.first), 4010)

    def hear_late_answer(self) -> None:
        assert self.late.round > self.first.round
        self.node.step(self.answer_to(self.late), 4020)

    def answer_to(self, message: AppendEntries) -> AppendAnswer:
        self.follower.step(message, 4000)
        (answer,) = (it.message for it in settle(self.follower, 4000))
        assert isinstance(answer, AppendAnswer)
        return answer


def test_an_answer_to_what_was_said_in_an_earlier_leadership_tells_of_no_loss() -> None:
    again = LeaderAgain()
    again.hear_follower()
    settle(again.node, 4010)
    again.hear_late_answer()
    ready = again.node.ready()
    assert ready is None or not ready.regressed


def test_an_answer_to_what_was_said_in_an_earlier_leadership_confirms_no_read() -> None:
    again = LeaderAgain()
    again.answer_to(again.first)  # lost on its way
    again.hear_late_answer()
    again.node.read("anything", 4030)
    ready = taken(again.node)
    assert not ready.read_states, "nobody has said since then that it still knows this leader"
    assert appends_to(list(ready.messages), OTHER), "it is asked"
