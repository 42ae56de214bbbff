"""InitProducerId: who holds a transactional id, and how the one before is kept out."""

from __future__ import annotations

import pytest

from headrace.coordinators.transactions.state import EPOCH_GIVEN_MAX, EPOCH_MAX
from headrace.model.errors import ErrorCode
from tests.unit.coordinators.transactions_at_work import A0, FRESH, OLD_FLOW, TIMEOUT_MS, Desk

SETTLED = ["Empty", "CompleteCommit", "CompleteAbort"]


def desk_in(state: str) -> tuple[Desk, tuple[int, int]]:
    """A coordinator with one id in the given state, and the identity of its holder."""
    desk = Desk()
    identity = desk.start()
    if state.startswith("Complete"):
        identity = desk.transaction(identity, commit=state == "CompleteCommit")
    if state == "Ongoing":
        desk.add(identity, A0)
    assert desk.state == state
    return desk, identity


def test_a_new_id_gets_a_fresh_producer_id_and_the_first_epoch() -> None:
    desk = Desk()
    response = desk.init()
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, FRESH, 0)
    assert (desk.state, desk.described().transaction_timeout_ms) == ("Empty", TIMEOUT_MS)


@pytest.mark.parametrize("state", SETTLED)
def test_the_next_holder_of_an_idle_id_gets_the_next_epoch(state: str) -> None:
    desk, (producer_id, epoch) = desk_in(state)
    response = desk.init(timeout_ms=5)
    assert (response.producer_id, response.producer_epoch) == (producer_id, epoch + 1)
    assert (desk.state, desk.described().transaction_timeout_ms) == ("Empty", 5)
    assert desk.add((producer_id, epoch), A0) == ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_is_aborted_first() -> None:
    desk, (producer_id, epoch) = desk_in("Ongoing")
    response = desk.init()
    assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    (order,) = desk.orders
    assert (order.is_commit, order.producer_epoch, order.partitions) == (False, epoch + 1, (A0,))
    assert desk.state == "PrepareAbort"

    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS  # still on its way
    desk.write_markers()
    response = desk.init()
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer_id, epoch + 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_that_lost_its_id_is_fenced_whatever_it_tries(commit: bool) -> None:
    desk, old = desk_in("Ongoing")
    desk.init()
    desk.write_markers()
    for _ in range(2):  # before and after the new holder comes back for its identity
        before = len(desk.log)
        assert desk.end(old, commit).error_code == ErrorCode.PRODUCER_FENCED
        assert desk.end(old, commit, version=OLD_FLOW).error_code == ErrorCode.PRODUCER_FENCED
        assert desk.add(old, A0) == ErrorCode.PRODUCER_FENCED
        assert desk.init(expected=old).error_code == ErrorCode.PRODUCER_FENCED
        assert len(desk.log) == before
        desk.init()


def test_an_abort_for_a_new_holder_cannot_be_taken_for_ones_own() -> None:
    """Its answer would hand out an epoch that belongs to nobody yet."""
    desk, old = desk_in("Ongoing")
    desk.init()
    desk.write_markers()
    response = desk.end(old, commit=False)
    assert (response.error_code, response.producer_epoch) == (ErrorCode.PRODUCER_FENCED, -1)


# KIP-360: a producer that says who it is


@pytest.mark.parametrize("state", SETTLED)
def test_the_holder_itself_gets_the_next_epoch(state: str) -> None:
    desk, (producer_id, epoch) = desk_in(state)
    assert desk.start(expected=(producer_id, epoch)) == (producer_id, epoch + 1)


@pytest.mark.parametrize("reload", [False, True])
def test_a_lost_answer_is_given_again(reload: bool) -> None:
    desk, old = desk_in("Empty")
    new = desk.start(expected=old)
    if reload:
        desk.reload()
    assert desk.start(expected=old) == new
    assert desk.start(expected=old) == new


@pytest.mark.parametrize("reload", [False, True])
def test_after_an_end_whose_answer_was_lost_the_holder_may_ask_for_its_identity(reload: bool) -> None:
    desk = Desk()
    old = desk.start()
    new = desk.transaction(old)
    if reload:
        desk.reload()
    assert desk.start(expected=old) == new


def test_the_holder_may_abort_its_own_transaction_so() -> None:
    desk, (producer_id, epoch) = desk_in("Ongoing")
    assert desk.init(expected=(producer_id, epoch)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.start(expected=(producer_id, epoch)) == (producer_id, epoch + 1)


def test_the_identity_before_is_worth_nothing_once_the_new_one_is_used() -> None:
    desk, old = desk_in("Empty")
    new = desk.start(expected=old)
    desk.add(new, A0)
    assert desk.init(expected=old).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.state == "Ongoing"


def test_the_identity_before_is_worth_nothing_once_another_took_over() -> None:
    desk, first = desk_in("Empty")
    second = desk.start(expected=first)
    third = desk.start()
    for stale in (first, second):
        assert desk.init(expected=stale).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.add(third, A0) == ErrorCode.NONE


@pytest.mark.parametrize("wrong", [(FRESH, 5), (FRESH + 77, 0)])
@pytest.mark.parametrize("state", [*SETTLED, "Ongoing"])
def test_an_identity_that_nobody_has_is_fenced(state: str, wrong: tuple[int, int]) -> None:
    desk, _ = desk_in(state)
    before = len(desk.log)
    assert desk.init(expected=wrong).error_code == ErrorCode.PRODUCER_FENCED
    assert len(desk.log) == before


def test_an_expected_identity_does_not_matter_once_the_id_is_forgotten() -> None:
    """A producer that was away for longer than ids are kept may go on."""
    desk = Desk()
    assert desk.start(expected=(55, 3)) == (FRESH, 0)


# The end of epochs


def desk_at_the_last_epoch() -> tuple[Desk, tuple[int, int]]:
    desk = Desk()
    return desk, desk.start_at_the_last_epoch()


def test_after_the_last_epoch_comes_a_fresh_producer_id() -> None:
    desk, last = desk_at_the_last_epoch()
    assert last == (FRESH, EPOCH_GIVEN_MAX)
    producer_id, epoch = desk.start()
    assert (producer_id > FRESH, epoch) == (True, 0)
    assert desk.init(expected=last).error_code == ErrorCode.PRODUCER_FENCED  # another has taken over
    assert desk.add(last, A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("reload", [False, True])
def test_the_holder_of_the_last_epoch_may_ask_twice_for_its_fresh_producer_id(reload: bool) -> None:
    desk, last = desk_at_the_last_epoch()
    new = desk.start(expected=last)
    if reload:
        desk.reload()
    assert new[1] == 0
    assert desk.start(expected=last) == new


def test_the_very_last_epoch_only_fences() -> None:
    desk, last = desk_at_the_last_epoch()
    desk.add(last, A0)
    desk.init()
    (order,) = desk.orders
    assert (order.producer_id, order.producer_epoch) == (FRESH, EPOCH_MAX)
    desk.write_markers()
    assert desk.add((FRESH, EPOCH_MAX), A0) == ErrorCode.PRODUCER_FENCED
    assert desk.end((FRESH, EPOCH_MAX), commit=False).error_code == ErrorCode.PRODUCER_FENCED
    producer_id, epoch = desk.start()
    assert (producer_id > FRESH, epoch) == (True, 0)


def test_a_holder_timed_out_at_the_last_epoch_goes_on_under_a_fresh_producer_id() -> None:
    desk, last = desk_at_the_last_epoch()
    desk.add(last, A0)
    desk.pass_ms(TIMEOUT_MS)
    desk.tick()
    desk.write_markers()
    new = desk.start(expected=last)
    assert (new[0] > FRESH, new[1]) == (True, 0)
    assert desk.start(expected=last) == new


# Bad requests


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    desk = Desk()
    response = desk.init(timeout_ms=timeout_ms)
    assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1)
    assert not desk.log


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_a_timeout_within_bounds_is_taken(timeout_ms: int) -> None:
    assert Desk().init(timeout_ms=timeout_ms).error_code == 0


@pytest.mark.parametrize("expected", [(3, -1), (-1, 3)])
def test_half_an_identity_is_none(expected: tuple[int, int]) -> None:
    assert Desk().init(expected=expected).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_id_is_refused() -> None:
    assert Desk().init(transactional_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_old_clients_are_told_of_the_fence_in_their_own_words(version: int, code: ErrorCode) -> None:
    desk, _ = desk_in("Empty")
    assert desk.init(expected=(FRESH, 5), version=version).error_code == code
