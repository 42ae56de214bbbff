from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, Epoch, NodeId, Offset
from headrace.replication.replica import ACKS_ALL, Durability, Replica

if TYPE_CHECKING:
    from collections.abc import Callable

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)

ALL = (ME, SECOND, THIRD)


def replica_at(
    written: int = 0,
    flushed: int | None = None,
    *,
    high_watermark: int = 0,
    log_start: int = 0,
    durability: Durability = "flushed",
    min_insync: int = 1,
) -> Replica:
    return Replica(
        ME,
        log_start=Offset(log_start),
        written=Offset(written),
        flushed=Offset(written if flushed is None else flushed),
        high_watermark=Offset(high_watermark),
        min_insync=min_insync,
        durability=durability,
    )


def reached(replica: Replica, node_id: NodeId, flushed: int) -> Offset:
    return replica.on_follower_fetched(node_id, 1, Offset(flushed), Offset(flushed), now_ms=0)


def leader(*in_sync: NodeId, min_insync: int = 1, durability: Durability = "flushed") -> Replica:
    replica = replica_at(min_insync=min_insync, durability=durability)
    replica.become_leader(Epoch(5), in_sync or (ME,), ALL if in_sync else (ME,))
    return replica


@pytest.mark.parametrize(
    ("log_start", "noted", "flushed", "expected"),
    [
        (0, 40, 100, 40),
        (0, 100, 60, 60),  # the power cut took what the note had counted
        (50, 10, 100, 50),  # nothing below the log's start is left to show
    ],
)
def test_the_noted_high_watermark_is_bounded_by_what_is_there(
    log_start: int, noted: int, flushed: int, expected: int
) -> None:
    assert replica_at(100, flushed, high_watermark=noted, log_start=log_start).high_watermark == expected


def test_a_lone_leader_commits_what_it_has_flushed() -> None:
    replica = replica_at(written=100, flushed=80, high_watermark=10)
    assert replica.high_watermark == 10
    assert replica.become_leader(Epoch(0), [ME]) == 80
    assert replica.on_written(Offset(120)) == 80
    assert replica.on_flushed(Offset(110)) == 110
    assert (replica.written, replica.flushed, replica.high_watermark) == (120, 110, 110)


def test_durability_written_commits_without_the_device() -> None:
    replica = leader(durability="written")
    assert replica.on_written(Offset(7)) == 7
    assert replica.on_flushed(Offset(3)) == 7


def test_weakening_durability_commits_at_once_and_strengthening_takes_nothing_back() -> None:
    replica = leader()
    replica.on_written(Offset(9))
    assert replica.set_policy(durability="written", min_insync=1) == 9
    assert replica.set_policy(durability="flushed", min_insync=1) == 9
    assert replica.on_written(Offset(12)) == 9


def test_a_replica_that_does_not_lead_commits_nothing_by_itself() -> None:
    replica = replica_at()
    replica.on_written(Offset(5))
    assert replica.on_flushed(Offset(5)) == 0


def test_the_slowest_in_sync_replica_decides() -> None:
    replica = leader(ME, SECOND, THIRD)
    replica.on_written(Offset(100))
    assert replica.on_flushed(Offset(100)) == 0, "nobody else has reported"
    assert reached(replica, SECOND, 90) == 0
    assert reached(replica, THIRD, 40) == 40
    assert reached(replica, THIRD, 95) == 90
    assert reached(replica, SECOND, 10) == 90, "never back"


def test_dropping_the_slowest_commits_what_the_others_have() -> None:
    replica = leader(ME, SECOND, THIRD)
    replica.on_written(Offset(100))
    replica.on_flushed(Offset(100))
    reached(replica, SECOND, 70)
    assert replica.set_in_sync([SECOND, ME]) == 70


def test_a_follower_outside_the_in_sync_set_does_not_count() -> None:
    replica = leader(ME)
    replica.on_written(Offset(100))
    replica.on_flushed(Offset(100))
    assert reached(replica, THIRD, 3) == 100


def test_with_too_few_in_sync_nothing_new_is_committed() -> None:
    replica = leader(ME, min_insync=2)
    replica.on_written(Offset(10))
    assert replica.on_flushed(Offset(10)) == 0
    assert reached(replica, SECOND, 10) == 0
    assert replica.set_in_sync([ME, SECOND]) == 10


def test_who_is_eligible_counts_although_enough_are_in_sync() -> None:
    """The controller goes by another min.insync.replicas, or has not reviewed it yet: it may still elect Third."""
    replica = leader(ME, SECOND)
    replica.on_written(Offset(100))
    replica.on_flushed(Offset(100))
    reached(replica, THIRD, 40)
    assert replica.set_in_sync([ME], [THIRD]) == 40
    assert reached(replica, THIRD, 60) == 60
    assert replica.set_in_sync([ME]) == 100


def test_a_new_leader_counts_who_is_eligible() -> None:
    replica = replica_at(10)
    assert replica.become_leader(Epoch(5), [ME], ALL, 0, [SECOND]) == 0
    assert reached(replica, THIRD, 10) == 0
    assert reached(replica, SECOND, 10) == 10


def test_a_new_leadership_forgets_what_followers_had() -> None:
    replica = leader(ME, SECOND)
    reached(replica, SECOND, 50)
    replica.resign()
    replica.become_leader(Epoch(7), [ME, SECOND], ALL)
    replica.on_written(Offset(50))
    assert replica.on_flushed(Offset(50)) == 0


@pytest.mark.parametrize(
    ("in_sync", "min_insync", "factor", "acks", "refused"),
    [
        ([ME], 1, 1, ACKS_ALL, False),
        ([ME], 2, 1, ACKS_ALL, False),  # more cannot be asked than there are replicas
        ([ME], 2, 3, ACKS_ALL, True),
        ([ME], 2, 3, 1, False),
        ([ME], 2, 3, 0, False),
        ([ME, SECOND], 2, 3, ACKS_ALL, False),
        ([ME, SECOND], 3, 3, ACKS_ALL, True),
    ],
)
def test_enough_replicas(in_sync: list[NodeId], min_insync: int, factor: int, acks: int, refused: bool) -> None:
    replica = replica_at(min_insync=min_insync)
    replica.become_leader(Epoch(1), in_sync, ALL[:factor])
    if not refused:
        replica.check_write(acks)
        return
    with pytest.raises(Refusal, match=f"{len(in_sync)} replicas are in sync, acks=all needs {min_insync}") as refusal:
        replica.check_write(acks)
    assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_only_the_leader_serves() -> None:
    replica = leader()
    replica.check_write(1)
    replica.check_read()
    replica.resign()
    checks: list[Callable[[], None]] = [lambda: replica.check_write(1), replica.check_read]
    for check in checks:
        with pytest.raises(Refusal, match="node 1 does not lead") as refusal:
            check()
        assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("client_epoch", "code"),
    [
        (NO_EPOCH, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs_of_clients(client_epoch: int, code: ErrorCode | None) -> None:
    replica = leader()
    if code is None:
        replica.check_epoch(Epoch(client_epoch))
        return
    with pytest.raises(Refusal) as refusal:
        replica.check_epoch(Epoch(client_epoch))
    assert refusal.value.code is code


def test_broken_promises_are_bugs() -> None:
    replica = leader()
    replica.on_written(Offset(10))
    replica.on_flushed(Offset(5))
    with pytest.raises(AssertionError):
        replica.on_written(Offset(9))
    with pytest.raises(AssertionError):
        replica.on_flushed(Offset(4))
    with pytest.raises(AssertionError):
        replica.on_flushed(Offset(11))
    with pytest.raises(AssertionError):
        replica.become_leader(Epoch(5), [ME])
    with pytest.raises(AssertionError):
        replica.set_in_sync([SECOND])


LAG_MS = 1000


def fetched(
    replica: Replica, node_id: NodeId, written: int, now_ms: int, *, flushed: int = 0, life: int = 1, start: int = 0
) -> Offset:
    return replica.on_follower_fetched(
        node_id, life, Offset(written), Offset(flushed or written), now_ms, Offset(start)
    )


def wanted(
    replica: Replica, now_ms: int, away: tuple[NodeId, ...] = (), *, start: int = 0
) -> tuple[NodeId, ...] | None:
    return replica.wanted_in_sync(now_ms, LAG_MS, {}, lambda node_id: node_id not in away, Offset(start))


def leader_with(count: int, *in_sync: NodeId) -> Replica:
    """A leader whose log has `count` records, all flushed."""
    replica = leader(*in_sync)
    replica.on_written(Offset(count))
    replica.on_flushed(Offset(count))
    return replica


def test_who_does_not_fetch_leaves_the_in_sync_set_after_the_lag() -> None:
    replica = leader_with(10, ME, SECOND, THIRD)
    fetched(replica, SECOND, 10, now_ms=500)
    assert wanted(replica, LAG_MS) is None
    assert wanted(replica, LAG_MS + 1) == (ME, SECOND)
    assert wanted(replica, LAG_MS + 501) == (ME,)


def test_who_fetches_other_partitions_is_there_and_needs_nothing_of_this_one() -> None:
    replica = leader_with(10, ME, SECOND)
    fetched(replica, SECOND, 10, now_ms=0)
    assert replica.wanted_in_sync(9000, LAG_MS, {SECOND: 8500}, lambda _: True, Offset(0)) is None
    replica.on_written(Offset(11))
    assert replica.wanted_in_sync(9400, LAG_MS, {SECOND: 9400}, lambda _: True, Offset(0)) is None, (
        "it has had no time to fetch"
    )
    assert replica.wanted_in_sync(9501, LAG_MS, {SECOND: 9500}, lambda _: True, Offset(0)) == (ME,), (
        "it asks, but not for this"
    )


def test_who_fetches_but_falls_behind_leaves_too() -> None:
    replica = leader_with(10, ME, SECOND)
    for now_ms in range(0, 2000, 100):
        replica.on_written(Offset(10 + now_ms))
        fetched(replica, SECOND, 5 + now_ms // 100, now_ms)
    assert wanted(replica, 2000) == (ME,)


def test_who_is_always_one_fetch_behind_keeps_up() -> None:
    """Under steady writes no fetch ever meets the end of the log; it meets the end as it was a fetch ago."""
    replica = leader_with(10, ME, SECOND)
    for now_ms in range(0, 5000, 100):
        end = replica.written
        replica.on_written(Offset(end + 10))
        fetched(replica, SECOND, end, now_ms)
    assert wanted(replica, 5000) is None


def test_who_has_everything_committed_on_disk_comes_back() -> None:
    replica = leader_with(10, ME)
    assert replica.high_watermark == 10
    fetched(replica, SECOND, 10, now_ms=0, flushed=7)
    assert wanted(replica, 0) is None, "written is not enough"
    fetched(replica, SECOND, 10, now_ms=1)
    assert wanted(replica, 1) == (ME, SECOND)
    assert wanted(replica, 1, away=(SECOND,)) is None
    assert replica.broker_epoch_of(SECOND) == 1


def test_who_still_has_what_is_deleted_here_does_not_come_back() -> None:
    """Whoever had it deleted was told that it is gone; nobody waited for one that was not in sync."""
    replica = leader_with(10, ME)
    fetched(replica, SECOND, 10, now_ms=0, start=3)
    assert wanted(replica, 0, start=4) is None
    fetched(replica, SECOND, 10, now_ms=1, start=4)
    assert wanted(replica, 1, start=4) == (ME, SECOND)


def test_who_lacks_what_was_committed_before_our_epoch_does_not_come_back() -> None:
    """A leader that was restarted knows an old high watermark, and cannot raise it while it is alone."""
    replica = replica_at(10, high_watermark=4, min_insync=2)
    replica.become_leader(Epoch(5), [ME], ALL)
    assert replica.high_watermark == 4
    fetched(replica, SECOND, 6, now_ms=0)
    assert wanted(replica, 0) is None
    fetched(replica, SECOND, 10, now_ms=1)
    assert wanted(replica, 1) == (ME, SECOND)


def test_under_a_new_leader_nobody_comes_back_without_all_that_may_be_committed() -> None:
    """Who leads anew knows no high watermark yet. What the leader before has acked lies somewhere below its own end."""
    replica = Replica(ME, log_start=Offset(0), written=Offset(10), flushed=Offset(10), high_watermark=Offset(0))
    replica.become_leader(Epoch(4), [ME, SECOND], [ME, SECOND, THIRD])
    assert replica.high_watermark == 0
    fetched(replica, THIRD, 10, now_ms=0, flushed=9)
    assert wanted(replica, 0) is None
    fetched(replica, THIRD, 10, now_ms=1)
    assert wanted(replica, 1) == (ME, SECOND, THIRD)


def test_another_life_of_a_follower_begins_with_nothing() -> None:
    replica = leader_with(10, ME)
    fetched(replica, SECOND, 10, now_ms=0)
    fetched(replica, SECOND, 2, now_ms=1, life=2)
    assert wanted(replica, 1) is None


def test_who_is_proposed_counts_before_the_controller_has_answered() -> None:
    """It may have agreed already, and may elect the newcomer: what that one lacks must not be acknowledged."""
    replica = leader_with(10, ME)
    fetched(replica, SECOND, 10, now_ms=0)
    replica.propose_in_sync((ME, SECOND))
    replica.on_written(Offset(20))
    assert replica.on_flushed(Offset(20)) == 10
    assert wanted(replica, 0) is None, "one wish at a time"
    assert fetched(replica, SECOND, 15, now_ms=1) == 15
    replica.proposal_ended(is_refused=False)
    assert replica.on_flushed(Offset(20)) == 15, "nobody knows whether the controller has agreed"
    replica.propose_in_sync((ME, SECOND))
    replica.proposal_ended(is_refused=True)
    assert replica.on_flushed(Offset(20)) == 15, "the first proposal may still be on its way"
    assert wanted(replica, 0, away=(SECOND,)) == (ME,), "asked for once more, so that no earlier proposal counts"
    assert replica.set_in_sync([ME]) == 20


def test_a_proposal_that_is_refused_counts_no_longer() -> None:
    replica = leader_with(10, ME)
    fetched(replica, SECOND, 10, now_ms=0)
    replica.propose_in_sync((ME, SECOND))
    replica.on_written(Offset(20))
    assert replica.on_flushed(Offset(20)) == 10
    replica.proposal_ended(is_refused=True)
    assert replica.on_flushed(Offset(20)) == 20


def test_who_is_to_leave_counts_until_the_controller_has_agreed() -> None:
    replica = leader_with(10, ME, SECOND)
    replica.propose_in_sync((ME,))
    assert replica.on_flushed(Offset(10)) == 0
    assert replica.set_in_sync([ME]) == 10


def test_a_follower_knows_what_is_safe_from_its_leader() -> None:
    replica = replica_at(written=10, flushed=6)
    replica.become_follower(Epoch(3), SECOND, ALL)
    assert replica.on_leader_said(Offset(4)) == 4
    assert replica.on_leader_said(Offset(9)) == 6, "not more than it has itself"
    assert replica.on_leader_said(Offset(2)) == 6, "never back"


def test_a_follower_that_went_another_way_is_cut() -> None:
    replica = replica_at(written=10, flushed=8, high_watermark=3)
    replica.become_follower(Epoch(3), SECOND, ALL)
    replica.on_truncated(Offset(5))
    assert (replica.written, replica.flushed, replica.high_watermark) == (5, 5, 3)


def test_a_wish_that_a_change_has_overtaken_ends_quietly() -> None:
    replica = leader_with(10, ME, SECOND)
    replica.propose_in_sync(ALL)
    replica.set_in_sync([ME])
    replica.proposal_ended(is_refused=False)
    assert replica.on_flushed(Offset(10)) == 10, "nobody is in doubt: the change came after whatever was asked for"


def test_a_fetch_of_a_life_that_is_over_says_nothing() -> None:
    replica = leader_with(10, ME, SECOND)
    assert fetched(replica, SECOND, 3, now_ms=0, life=2) == 3
    assert fetched(replica, SECOND, 9, now_ms=1, life=1) == 3
    assert replica.broker_epoch_of(SECOND) == 2


def test_what_became_safe_without_a_lease_counts_once_it_is_renewed() -> None:
    replica = leader(ME)
    replica.set_leased(is_leased=False)
    replica.on_written(Offset(10))
    assert replica.on_flushed(Offset(10)) == 0
    assert replica.set_leased(is_leased=True) == 10


def test_records_are_deleted_once_all_in_sync_say_so() -> None:
    replica = leader_with(10, ME, SECOND)
    assert not replica.begins_everywhere_at(Offset(5))
    replica.on_follower_fetched(SECOND, 1, Offset(10), Offset(10), 0, log_start=Offset(4))
    assert not replica.begins_everywhere_at(Offset(5))
    replica.on_follower_fetched(SECOND, 1, Offset(10), Offset(10), 0, log_start=Offset(5))
    assert replica.begins_everywhere_at(Offset(5))
    replica.set_in_sync([ME, SECOND], [THIRD])
    assert not replica.begins_everywhere_at(Offset(5)), "Third may be elected, and would bring them back"
