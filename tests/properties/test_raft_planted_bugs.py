"""The judge of the Raft walks is worth something only if it finds bugs. Each of these must be found.

Those marked as real were in the first draft of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.raft.follower_state import FollowerState
from headrace.raft.leader_state import LeaderState
from headrace.raft.log import RaftLog
from headrace.raft.membership import Membership
from headrace.raft.node import RaftNode
from headrace.raft.progress import Progress
from headrace.raft.ready import HardState, ReadState
from headrace.raft.tracker import ProgressTracker
from headrace.raft.unsaved import Unsaved
from tests.scenarios.test_raft_scenarios import TRANSCRIPTS, played_again
from tests.unit.raft.raft_walk import Walk

if TYPE_CHECKING:
    from headrace.model.names import Offset
    from headrace.raft.membership import ReplicaKey
    from headrace.raft.messages import AppendEntries, VoteAnswer

SEEDS_MAX = 60
STEPS = 40


def count_entries_of_older_terms(patch: pytest.MonkeyPatch) -> None:
    honest = LeaderState.agreed_end

    def agreed_end(self: Any) -> Offset:
        term_start, self._term_start = self._term_start, -1
        try:
            return honest(self)
        finally:
            self._term_start = term_start

    patch.setattr(LeaderState, "agreed_end", agreed_end)


def say_before_it_is_flushed(patch: pytest.MonkeyPatch) -> None:
    honest = Unsaved.take

    def take(self: Unsaved, *args: Any) -> Any:
        promises, self.promises = self.promises, []
        saving, sayable = honest(self, *args)
        return saving, sayable + promises

    patch.setattr(Unsaved, "take", take)


def speak_in_a_term_that_is_being_flushed(patch: pytest.MonkeyPatch) -> None:
    """Real: only the step that changed the term held its messages back, not those after it."""
    honest = Unsaved.take

    def take(self: Any, hard_state: HardState, *args: Any) -> Any:
        messages, self.messages = (self.messages, []) if hard_state == self._hard_state else ([], self.messages)
        saving, sayable = honest(self, hard_state, *args)
        return saving, sayable + messages

    patch.setattr(Unsaved, "take", take)


def forget_the_vote(patch: pytest.MonkeyPatch) -> None:
    honest = Unsaved.take
    patch.setattr(Unsaved, "take", lambda self, hard_state, end: honest(self, HardState(hard_state.term), end))


def count_what_the_leader_has_not_flushed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "flushed_end", property(lambda self: self.end, lambda self, end: None), raising=False)


def change_voters_two_at_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "_may_change_membership", lambda self: True)


def count_votes_of_any_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "is_voter", lambda self, replica: replica.node_id in self.voter_ids)


def read_without_asking_the_others(patch: pytest.MonkeyPatch) -> None:
    def read(self: Any, token: object, now_ms: int) -> None:
        self._next.read_states.append(ReadState(token, self._log.commit_end))

    patch.setattr(LeaderState, "read", read)


def read_before_the_first_commit_of_a_term(patch: pytest.MonkeyPatch) -> None:
    honest = LeaderState.read

    def read(self: Any, token: object, now_ms: int) -> None:
        term_start, self._term_start = self._term_start, -1
        honest(self, token, now_ms)
        self._term_start = term_start

    patch.setattr(LeaderState, "read", read)


def cut_the_log_at_every_message(patch: pytest.MonkeyPatch) -> None:
    def without_known(self: FollowerState, entries: Any) -> Any:
        return tuple(entry for entry in entries if entry.end > self._log.commit_end)

    patch.setattr(FollowerState, "_without_known", without_known)


def commit_what_was_not_compared(patch: pytest.MonkeyPatch) -> None:
    honest = RaftNode.append_entries

    def append_entries(self: Any, message: AppendEntries, now_ms: int) -> None:
        honest(self, message, now_ms)
        self._next.commit(min(message.commit_end, self._log.end))

    patch.setattr(RaftNode, "append_entries", append_entries)


def count_refused_votes(patch: pytest.MonkeyPatch) -> None:
    honest = RaftNode._vote_answered

    def vote_answered(self: RaftNode, message: VoteAnswer, now_ms: int) -> None:
        honest(self, replace(message, is_granted=True), now_ms)

    patch.setattr(RaftNode, "_vote_answered", vote_answered)


def vote_for_shorter_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "is_covered_by", lambda self, last_term, end: self.last_term <= last_term)


def never_send_a_snapshot_to_those_of_older_terms(patch: pytest.MonkeyPatch) -> None:
    """Real: a log that begins in a later term than the follower's last went back to its start, and no further."""

    def refused(self: Progress, answer: Any, log: RaftLog, now_ms: int) -> None:
        self.in_flight.clear()
        self.is_probing, self.installing_until_ms = True, None
        term, end = log.end_of_term(answer.hint_term)
        place = min(end, answer.end) if term == answer.hint_term else end
        self.next = max(self.match_end, min(place, self.next))

    patch.setattr(Progress, "refused", refused)


def overlook_some_refusals(patch: pytest.MonkeyPatch) -> None:
    """Real: who has a longer log that differs was not believed, and got no entries any more."""
    honest = Progress.refused

    def refused(self: Progress, answer: Any, log: RaftLog, now_ms: int) -> None:
        if answer.end < self.next or self.is_probing:
            honest(self, answer, log, now_ms)

    patch.setattr(Progress, "refused", refused)


def let_nobody_stand_who_is_being_voted_out(patch: pytest.MonkeyPatch) -> None:
    """Real: a leader that left before that was decided had the longest log; nobody could be elected any more."""
    patch.setattr(RaftLog, "may_stand", lambda self, me: self.membership.is_voter(me))


def let_another_disk_stand(patch: pytest.MonkeyPatch) -> None:
    """Real: seed 20104 of the walks, forty steps. An older membership, which named no disks, was believed."""

    def may_stand(self: Any, me: ReplicaKey) -> bool:
        return any(membership.is_voter(me) for _, membership in self._memberships[-2:])

    patch.setattr(RaftLog, "may_stand", may_stand)


def let_anybody_disturb_a_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftNode, "_keeps_its_leader", lambda self, message, now_ms: False)


def lead_on_though_nobody_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "has_quorum", lambda self, since_ms: True)


def count_voters_nobody_has_heard_from(patch: pytest.MonkeyPatch) -> None:
    """Real: a removal just after an election left one voter alone with a dead one."""
    patch.setattr(ProgressTracker, "answering", lambda self, membership, since_ms: set(membership.voter_ids))


Plant = Callable[[pytest.MonkeyPatch], None]

FOUND_BY_WALKING: list[Plant] = [
    say_before_it_is_flushed,
    forget_the_vote,
    count_what_the_leader_has_not_flushed,
    cut_the_log_at_every_message,
    commit_what_was_not_compared,
    vote_for_shorter_logs,
]

FOUND_BY_SCENARIO: dict[Plant, str] = {
    count_entries_of_older_terms: "figure_8",
    count_votes_of_any_disk: "replaced_disk_cannot_vote",
    change_voters_two_at_a_time: "one_change_at_a_time",
    read_without_asking_the_others: "reads",
    read_before_the_first_commit_of_a_term: "reads",
    speak_in_a_term_that_is_being_flushed: "one_voter",
    never_send_a_snapshot_to_those_of_older_terms: "snapshot_to_slow_follower",
    overlook_some_refusals: "longer_log_that_differs",
    let_nobody_stand_who_is_being_voted_out: "voted_out_yet_needed",
    let_another_disk_stand: "replaced_disk_cannot_stand",
    let_anybody_disturb_a_leader: "pre_vote_fails",
    count_refused_votes: "split_vote",
    lead_on_though_nobody_answers: "isolated_leader_resigns",
    count_voters_nobody_has_heard_from: "removal_counts_only_answers",
}


@pytest.mark.parametrize("plant", FOUND_BY_WALKING)
def test_a_walk_finds_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            Walk(seed).go(STEPS)
        except AssertionError:
            return
    pytest.fail(f"{SEEDS_MAX} seeds found nothing")


@pytest.mark.parametrize("plant", FOUND_BY_SCENARIO)
def test_a_scenario_finds_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a walk needs hundreds of seeds: either the judge protests, or the transcript tells another story."""
    written = (TRANSCRIPTS / f"{FOUND_BY_SCENARIO[plant]}.txt").read_text()
    plant(monkeypatch)
    try:
        happened = played_again(written, monkeypatch)
    except AssertionError:
        return
    assert happened != written
