"""EndTxn, by both flows, and what follows until the markers are written."""

from __future__ import annotations

import pytest

from headrace.coordinators.transactions.state import EPOCH_MAX
from headrace.model.errors import ErrorCode
from tests.unit.coordinators.transactions_at_work import (
    A0,
    A1,
    APP,
    B0,
    FRESH,
    NEW_FLOW,
    OLD_FLOW,
    TIMEOUT_MS,
    Desk,
)

FLOWS = pytest.mark.parametrize("flow", [OLD_FLOW, NEW_FLOW])
OUTCOMES = pytest.mark.parametrize("commit", [True, False])


def open_transaction() -> tuple[Desk, tuple[int, int]]:
    desk = Desk()
    identity = desk.start()
    assert desk.add(identity, A0, B0) == ErrorCode.NONE
    return desk, identity


def complete(commit: bool) -> str:
    return "CompleteCommit" if commit else "CompleteAbort"


# The ordinary way


@FLOWS
@OUTCOMES
def test_markers_go_to_every_partition_and_then_it_is_over(flow: int, commit: bool) -> None:
    desk, (producer_id, epoch) = open_transaction()
    desk.add((producer_id, epoch), A1)
    assert desk.end((producer_id, epoch), commit, flow).error_code == 0
    assert desk.state == ("PrepareCommit" if commit else "PrepareAbort")
    (order,) = desk.orders
    assert order.partitions == (A0, A1, B0)
    assert (order.transactional_id, order.producer_id, order.is_commit) == (APP, producer_id, commit)
    assert order.coordinator_epoch == desk.coordinator_epoch
    desk.write_markers()
    assert desk.state == complete(commit)
    assert desk.described().topics == []


@OUTCOMES
def test_the_older_flow_keeps_the_identity(commit: bool) -> None:
    desk, identity = open_transaction()
    response = desk.end(identity, commit, OLD_FLOW)
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    (order,) = desk.orders
    assert (order.producer_epoch, order.transaction_version) == (identity[1], 0)
    desk.write_markers()
    assert desk.add(identity, A0) == ErrorCode.NONE


@OUTCOMES
def test_the_newer_flow_brings_the_next_epoch(commit: bool) -> None:
    desk, (producer_id, epoch) = open_transaction()
    response = desk.end((producer_id, epoch), commit)
    assert (response.producer_id, response.producer_epoch) == (producer_id, epoch + 1)
    (order,) = desk.orders
    assert (order.producer_epoch, order.transaction_version) == (epoch + 1, 2)
    desk.write_markers()
    assert desk.add((producer_id, epoch), A0) == ErrorCode.PRODUCER_FENCED
    assert desk.add((producer_id, epoch + 1), A0) == ErrorCode.NONE


def test_an_id_may_change_between_the_flows() -> None:
    desk, identity = open_transaction()
    desk.end(identity, version=OLD_FLOW)
    desk.write_markers()
    identity = desk.transaction(identity)
    assert identity == (FRESH, 1)
    assert desk.add(identity, A1, version=0) == ErrorCode.NONE
    assert desk.end(identity, version=OLD_FLOW).error_code == 0
    desk.write_markers()
    assert desk.transaction(identity) == (FRESH, 2)


# While the markers are on their way


@FLOWS
def test_whoever_comes_between_the_two_steps_comes_again(flow: int) -> None:
    desk, identity = open_transaction()
    desk.end(identity, version=flow)
    after = (FRESH, desk.described().producer_epoch)
    before = len(desk.log)
    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init(expected=after).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.add(after, A0) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert set(desk.verify(after, A0).values()) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    for commit in (True, False):
        assert desk.end(identity, commit, flow).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert desk.end(after, commit, flow).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(desk.log) == before


def test_markers_that_nobody_waits_for_change_nothing() -> None:
    desk, identity = open_transaction()
    desk.end(identity)
    (order,) = desk.orders
    for producer_id, epoch in [
        (order.producer_id, order.producer_epoch - 1),
        (order.producer_id + 1, order.producer_epoch),
    ]:
        assert not desk.mind.markers_written(APP, producer_id, epoch, desk.now).records  # type: ignore[arg-type]
    assert not desk.mind.markers_written("other", order.producer_id, order.producer_epoch, desk.now).records
    desk.write_markers()
    assert not desk.mind.markers_written(APP, order.producer_id, order.producer_epoch, desk.now).records


# Retries


@OUTCOMES
@pytest.mark.parametrize("reload", [False, True])
def test_a_retry_is_answered_as_the_first_time(commit: bool, reload: bool) -> None:
    desk, identity = open_transaction()
    first = desk.end(identity, commit)
    if reload:
        desk.reload()
    assert desk.end(identity, commit).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    before = len(desk.log)
    assert desk.end(identity, commit) == first
    assert desk.end(identity, commit) == first
    assert len(desk.log) == before


@OUTCOMES
def test_a_retry_by_the_older_flow_is_answered_too(commit: bool) -> None:
    desk, identity = open_transaction()
    desk.end(identity, commit, OLD_FLOW)
    desk.write_markers()
    assert desk.end(identity, commit, OLD_FLOW).error_code == 0
    assert desk.end(identity, not commit, OLD_FLOW).error_code == ErrorCode.INVALID_TXN_STATE
    assert not desk.orders


def test_an_abort_after_a_commit_is_refused() -> None:
    desk, identity = open_transaction()
    desk.end(identity)
    desk.write_markers()
    assert desk.end(identity, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert desk.state == "CompleteCommit"


def test_a_commit_after_an_abort_is_fenced() -> None:
    desk, identity = open_transaction()
    desk.end(identity, commit=False)
    desk.write_markers()
    assert desk.end(identity).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.state == "CompleteAbort"


@OUTCOMES
def test_a_late_end_cannot_touch_the_next_transaction(commit: bool) -> None:
    desk, old = open_transaction()
    new = desk.end(old)
    desk.write_markers()
    desk.add((new.producer_id, new.producer_epoch), A0)
    for flow in (OLD_FLOW, NEW_FLOW):
        assert desk.end(old, commit, flow).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.state == "Ongoing"


def test_a_stale_epoch_is_not_taken_for_a_retry_after_the_older_flow() -> None:
    """The epoch before is that of a producer which lost the id, not of one that lost an answer."""
    desk = Desk()
    lost = desk.start()
    holder = desk.start()
    desk.add(holder, A0, version=0)
    desk.end(holder, version=OLD_FLOW)
    desk.write_markers()
    assert desk.end(lost).error_code == ErrorCode.PRODUCER_FENCED


# Nothing to end


@FLOWS
def test_a_commit_without_a_transaction_is_refused(flow: int) -> None:
    desk = Desk()
    assert desk.end(desk.start(), version=flow).error_code == ErrorCode.INVALID_TXN_STATE


def test_an_abort_without_a_transaction_is_refused_by_the_older_flow() -> None:
    desk = Desk()
    assert desk.end(desk.start(), commit=False, version=OLD_FLOW).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("before", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_an_abort_without_a_transaction_only_brings_the_next_epoch(before: str) -> None:
    desk = Desk()
    identity = desk.start()
    if before != "Empty":
        identity = desk.transaction(identity, commit=before == "CompleteCommit")
    assert desk.state == before
    response = desk.end(identity, commit=False)
    assert (response.error_code, response.producer_epoch) == (0, identity[1] + 1)
    assert (desk.state, desk.orders) == ("CompleteAbort", [])
    assert desk.end(identity, commit=False) == response
    assert desk.described().transaction_start_time_ms == desk.now.wall_ms


def test_a_commit_of_the_transaction_before_is_refused_by_the_newer_flow() -> None:
    """The same epoch means the next transaction there, and that one has not begun."""
    desk = Desk()
    identity = desk.transaction(desk.start())
    assert desk.end(identity).error_code == ErrorCode.INVALID_TXN_STATE


# Strangers


@FLOWS
@OUTCOMES
def test_only_the_holder_ends_a_transaction(flow: int, commit: bool) -> None:
    desk, (producer_id, epoch) = open_transaction()
    before = len(desk.log)
    assert desk.end((producer_id + 1, epoch), commit, flow).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for wrong in (epoch - 1, epoch + 1):
        assert desk.end((producer_id, wrong), commit, flow).error_code == ErrorCode.PRODUCER_FENCED
    assert len(desk.log) == before


@FLOWS
def test_an_unknown_id_has_no_holder(flow: int) -> None:
    desk = Desk()
    assert desk.end((1, 0), version=flow).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.end((1, 0), version=flow, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_old_clients_are_told_of_the_fence_in_their_own_words(version: int, code: ErrorCode) -> None:
    desk, (producer_id, epoch) = open_transaction()
    assert desk.end((producer_id, epoch + 1), version=version).error_code == code


# Against the clock


def timed_out() -> tuple[Desk, tuple[int, int]]:
    desk, identity = open_transaction()
    desk.pass_ms(TIMEOUT_MS)
    desk.tick()
    desk.write_markers()
    assert desk.state == "CompleteAbort"
    return desk, identity


def test_a_commit_that_comes_after_the_timeout_is_fenced() -> None:
    desk, identity = timed_out()
    for flow in (OLD_FLOW, NEW_FLOW):
        assert desk.end(identity, version=flow).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.add(identity, A0) == ErrorCode.PRODUCER_FENCED


def test_an_abort_that_comes_after_the_timeout_finds_its_work_done() -> None:
    desk, (producer_id, epoch) = timed_out()
    response = desk.end((producer_id, epoch), commit=False)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer_id, epoch + 1)
    assert desk.transaction((producer_id, epoch + 1)) == (producer_id, epoch + 2)


# The end of epochs


def open_at_the_last_epoch() -> tuple[Desk, tuple[int, int]]:
    desk = Desk()
    identity = desk.start_at_the_last_epoch()
    desk.add(identity, A0)
    return desk, identity


@OUTCOMES
@pytest.mark.parametrize("reload", [False, True])
def test_after_the_last_epoch_comes_a_fresh_producer_id(commit: bool, reload: bool) -> None:
    desk, last = open_at_the_last_epoch()
    response = desk.end(last, commit)
    new = (response.producer_id, response.producer_epoch)
    assert (response.error_code, new[0] > FRESH, new[1]) == (0, True, 0)
    (order,) = desk.orders
    assert (order.producer_id, order.producer_epoch) == (FRESH, EPOCH_MAX)

    if reload:
        desk.reload()
    assert desk.add(new, A0) == ErrorCode.CONCURRENT_TRANSACTIONS  # told already, but not yet in its place
    assert desk.end(new, commit=False).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.end(last, commit) == response
    assert desk.start(expected=last) == new
    assert desk.add(new, A0) == ErrorCode.NONE
    assert desk.end(last, commit).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_older_flow_stays_at_the_last_epoch() -> None:
    desk, last = open_at_the_last_epoch()
    desk.end(last, version=OLD_FLOW)
    desk.write_markers()
    assert desk.add(last, A0, version=0) == ErrorCode.NONE


def test_an_abort_that_comes_after_the_timeout_of_the_last_epoch_gets_a_fresh_producer_id() -> None:
    desk, last = open_at_the_last_epoch()
    desk.pass_ms(TIMEOUT_MS)
    desk.tick()
    (order,) = desk.orders
    assert order.producer_epoch == EPOCH_MAX
    desk.write_markers()
    response = desk.end(last, commit=False)
    assert (response.error_code, response.producer_id > FRESH, response.producer_epoch) == (0, True, 0)
    assert desk.end(last, commit=False) == response
    desk.transaction((response.producer_id, response.producer_epoch))
