"""Transactions over their time, ids that nobody uses, and what a new leader finds."""

from __future__ import annotations

import pytest

from headrace.coordinators.transactions.coordinator import ABORTED_BYTES_MAX, ABORTS_AT_ONCE_MAX
from headrace.coordinators.transactions.settings import TransactionSettings
from headrace.coordinators.transactions.transaction_table import EXPIRED_AT_ONCE_MAX
from headrace.model.errors import ErrorCode
from headrace.model.names import TopicPartition
from tests.unit.coordinators.transactions_at_work import A0, B0, OLD_FLOW, TIMEOUT_MS, Desk

DAY_MS = 24 * 3_600_000


# Timeouts


def test_a_transaction_over_its_time_is_aborted_and_its_producer_fenced() -> None:
    desk = Desk()
    assert desk.mind.next_deadline_ms() is None
    identity = desk.start()
    assert desk.mind.next_deadline_ms() is None  # an idle id has all the time in the world
    desk.add(identity, A0)
    assert desk.mind.next_deadline_ms() == desk.now.steady_ms + TIMEOUT_MS

    desk.pass_ms(TIMEOUT_MS - 1)
    desk.tick()
    assert desk.state == "Ongoing"
    desk.pass_ms(1)
    desk.tick()
    assert desk.state == "PrepareAbort"
    (order,) = desk.orders
    assert (order.is_commit, order.producer_epoch, order.transaction_version) == (False, identity[1] + 1, 2)
    assert desk.mind.next_deadline_ms() is None
    desk.write_markers()
    assert desk.add(identity, A0) == ErrorCode.PRODUCER_FENCED


def test_more_partitions_give_no_more_time() -> None:
    desk = Desk()
    identity = desk.start()
    desk.add(identity, A0)
    deadline_ms = desk.mind.next_deadline_ms()
    desk.pass_ms(100)
    desk.add(identity, B0)
    assert desk.mind.next_deadline_ms() == deadline_ms


def test_a_transaction_that_ended_in_time_is_left_alone_and_the_next_has_its_own_time() -> None:
    desk = Desk()
    identity = desk.transaction(desk.start())
    assert desk.mind.next_deadline_ms() is None
    desk.pass_ms(TIMEOUT_MS - 1)
    desk.add(identity, A0)
    desk.pass_ms(1)
    desk.tick()
    assert desk.state == "Ongoing"


def test_the_wall_clock_ends_no_transaction() -> None:
    desk = Desk()
    desk.add(desk.start(), A0)
    desk.pass_ms(steady_ms=10, wall_ms=DAY_MS)
    desk.tick()
    assert desk.state == "Ongoing"


def test_many_at_once_are_aborted_in_bounded_batches() -> None:
    desk = Desk()
    for number in range(ABORTS_AT_ONCE_MAX + 1):
        name = f"app-{number}"
        desk.add(desk.start(transactional_id=name), A0, transactional_id=name)
    desk.pass_ms(TIMEOUT_MS)
    desk.tick()
    assert len(desk.orders) == ABORTS_AT_ONCE_MAX
    next_ms = desk.mind.next_deadline_ms()
    assert next_ms is not None
    assert next_ms <= desk.now.steady_ms
    desk.tick()
    assert len(desk.orders) == ABORTS_AT_ONCE_MAX + 1


def test_transactions_with_many_topics_are_aborted_in_bounded_batches() -> None:
    desk = Desk()
    places = [TopicPartition(f"{number:03}{'t' * 246}", 0) for number in range(200)]
    for number in range(200):
        name = f"app-{number}"
        desk.add(desk.start(transactional_id=name), *places, transactional_id=name)
    desk.pass_ms(TIMEOUT_MS)
    desk.tick()
    in_first = len(desk.orders)
    assert 0 < in_first <= ABORTED_BYTES_MAX // (len(places) * 249) + 1
    while len(desk.orders) < 200:
        before = len(desk.orders)
        desk.tick()
        assert len(desk.orders) - before <= in_first


# A new leader


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_leader_orders_the_markers_again(commit: bool) -> None:
    desk = Desk()
    identity = desk.start()
    desk.add(identity, A0, B0)
    desk.end(identity, commit)
    (lost,) = desk.orders
    desk.reload()
    (order,) = desk.orders
    assert order == lost._replace(coordinator_epoch=desk.coordinator_epoch)
    assert order.coordinator_epoch > lost.coordinator_epoch
    desk.write_markers()
    desk.reload()
    assert desk.orders == []


@pytest.mark.parametrize(
    ("passed_ms", "left_ms"), [(0, TIMEOUT_MS), (20_000, 40_000), (DAY_MS, 0), (-DAY_MS, TIMEOUT_MS)]
)
def test_a_new_leader_gives_the_time_that_is_left_and_never_more_than_all(passed_ms: int, left_ms: int) -> None:
    desk = Desk()
    desk.add(desk.start(), A0)
    desk.pass_ms(steady_ms=0, wall_ms=passed_ms)
    desk.reload(steady_ms=123)
    assert desk.mind.next_deadline_ms() == 123 + left_ms


def test_a_new_leader_goes_on_with_an_open_transaction() -> None:
    desk = Desk()
    identity = desk.start()
    desk.add(identity, A0)
    desk.reload()
    desk.add(identity, B0)
    desk.end(identity, version=OLD_FLOW)
    (order,) = desk.orders
    assert order.partitions == (A0, B0)


# Ids that nobody uses


def test_a_silent_id_is_forgotten() -> None:
    desk = Desk(TransactionSettings(id_expiration_ms=DAY_MS))
    identity = desk.start()
    desk.pass_ms(DAY_MS - 1)
    assert desk.expire() == 0
    desk.pass_ms(1)
    assert desk.expire() == 1
    assert desk.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.add(identity, A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    desk.reload()
    assert desk.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.start()[0] != identity[0]


def test_what_is_open_or_ending_is_not_forgotten() -> None:
    desk = Desk(TransactionSettings(id_expiration_ms=DAY_MS))
    for name in ("open", "ending", "ended"):
        identity = desk.start(transactional_id=name)
        desk.add(identity, A0, transactional_id=name)
        if name != "open":
            desk.end(identity, transactional_id=name)
        if name == "ended":
            desk.orders = desk.orders[1:]
            desk.write_markers()
    desk.pass_ms(steady_ms=0, wall_ms=DAY_MS)
    assert desk.expire() == 1
    states = [desk.described(name).transaction_state for name in ("open", "ending", "ended")]
    assert states == ["Ongoing", "PrepareCommit", ""]


def test_an_id_that_was_used_again_stays() -> None:
    desk = Desk(TransactionSettings(id_expiration_ms=DAY_MS))
    desk.start(transactional_id="first")
    desk.start(transactional_id="second")
    desk.pass_ms(DAY_MS - 1)
    desk.start(transactional_id="first")
    desk.pass_ms(1)
    assert desk.expire() == 1
    assert desk.described("first").transaction_state == "Empty"


def test_many_are_forgotten_in_bounded_batches() -> None:
    desk = Desk(TransactionSettings(id_expiration_ms=DAY_MS))
    for number in range(EXPIRED_AT_ONCE_MAX + 1):
        desk.start(transactional_id=f"app-{number}")
    desk.pass_ms(DAY_MS)
    assert [desk.expire(), desk.expire(), desk.expire()] == [EXPIRED_AT_ONCE_MAX, 1, 0]


def test_new_settings_count_from_now_on() -> None:
    desk = Desk()
    desk.mind.configure(TransactionSettings(max_timeout_ms=10))
    assert desk.init(timeout_ms=11).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
