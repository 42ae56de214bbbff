from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_EPOCH, Epoch, NodeId, Offset
from headrace.replication.replica import ACKS_ALL, Durability, Replica

if TYPE_CHECKING:
    from collections.abc import Callable

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)


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


def leader(*in_sync: NodeId, min_insync: int = 1, durability: Durability = "flushed") -> Replica:
    replica = replica_at(min_insync=min_insync, durability=durability)
    replica.become_leader(Epoch(5), in_sync or (ME,), replication_factor=3 if in_sync else 1)
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
    assert replica.on_follower_reached(SECOND, Offset(90)) == 0
    assert replica.on_follower_reached(THIRD, Offset(40)) == 40
    assert replica.on_follower_reached(THIRD, Offset(95)) == 90
    assert replica.on_follower_reached(SECOND, Offset(10)) == 90, "never back"


def test_dropping_the_slowest_commits_what_the_others_have() -> None:
    replica = leader(ME, SECOND, THIRD)
    replica.on_written(Offset(100))
    replica.on_flushed(Offset(100))
    replica.on_follower_reached(SECOND, Offset(70))
    assert replica.set_in_sync([SECOND, ME]) == 70


def test_a_follower_outside_the_in_sync_set_does_not_count() -> None:
    replica = leader(ME)
    replica.on_written(Offset(100))
    replica.on_flushed(Offset(100))
    assert replica.on_follower_reached(THIRD, Offset(3)) == 100


def test_with_too_few_in_sync_nothing_new_is_committed() -> None:
    replica = leader(ME, min_insync=2)
    replica.on_written(Offset(10))
    assert replica.on_flushed(Offset(10)) == 0
    assert replica.on_follower_reached(SECOND, Offset(10)) == 0
    assert replica.set_in_sync([ME, SECOND]) == 10


def test_a_new_leadership_forgets_what_followers_had() -> None:
    replica = leader(ME, SECOND)
    replica.on_follower_reached(SECOND, Offset(50))
    replica.resign()
    replica.become_leader(Epoch(7), [ME, SECOND], replication_factor=3)
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
    replica.become_leader(Epoch(1), in_sync, replication_factor=factor)
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
