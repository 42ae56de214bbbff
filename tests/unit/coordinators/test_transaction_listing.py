"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.names import Millis
from headrace.wire.messages.describe_transactions import TopicData, TransactionState
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from tests.unit.coordinators.transactions_at_work import A0, A1, B0, TIMEOUT_MS, Desk


@pytest.fixture
def desk() -> Desk:
    """Three ids: `idle` is Empty, `open/1` is Ongoing since 100 ms, `done: ö` is CompleteCommit since 50 ms."""
    desk = Desk()
    desk.start(transactional_id="idle")
    desk.add(desk.start(transactional_id="open/1"), B0, A1, A0, transactional_id="open/1")
    desk.pass_ms(50)
    identity = desk.start(transactional_id="done: ö")
    desk.add(identity, A0, transactional_id="done: ö")
    desk.end(identity, transactional_id="done: ö")
    desk.write_markers()
    desk.pass_ms(50)
    return desk


def listed(desk: Desk, **filters: object) -> list[str]:
    answer = desk.mind.list(ListTransactionsRequest(**filters), Millis(desk.now.wall_ms))  # type: ignore[arg-type]
    assert answer.error_code == 0
    return [state.transactional_id for state in answer.transaction_states]


def test_without_filters_all_are_listed_by_name(desk: Desk) -> None:
    answer = desk.mind.list(ListTransactionsRequest(), desk.now.wall_ms)
    assert [(state.transactional_id, state.transaction_state) for state in answer.transaction_states] == [
        ("done: ö", "CompleteCommit"),
        ("idle", "Empty"),
        ("open/1", "Ongoing"),
    ]
    assert [state.producer_id for state in answer.transaction_states] == [
        desk.described(name).producer_id for name in ("done: ö", "idle", "open/1")
    ]


def test_filters_narrow_it_down(desk: Desk) -> None:
    open_id = desk.described("open/1").producer_id
    assert listed(desk, state_filters=["Ongoing", "Empty"]) == ["idle", "open/1"]
    assert listed(desk, producer_id_filters=[open_id, 5]) == ["open/1"]
    assert listed(desk, state_filters=["Empty"], producer_id_filters=[open_id]) == []
    # What has not begun counts as old, as in Kafka.
    assert listed(desk, duration_filter=50) == ["idle", "open/1"]
    assert listed(desk, duration_filter=49) == ["done: ö", "idle", "open/1"]
    assert listed(desk, duration_filter=0, state_filters=["Ongoing"]) == ["open/1"]


def test_a_pattern_matches_whole_ids_of_any_characters(desk: Desk) -> None:
    assert listed(desk, transactional_id_pattern=r".*[^\w].") == ["done: ö", "open/1"]
    assert listed(desk, transactional_id_pattern="done: [a-z]") == []
    assert listed(desk, transactional_id_pattern="done:\\s(ä|ö)") == ["done: ö"]
    assert listed(desk, transactional_id_pattern="open") == []
    assert listed(desk, transactional_id_pattern="i(dle|nn)") == ["idle"]
    assert listed(desk, transactional_id_pattern="") == listed(desk)


def test_a_pattern_that_cannot_be_read_is_refused(desk: Desk) -> None:
    answer = desk.mind.list(ListTransactionsRequest(transactional_id_pattern="(a"), desk.now.wall_ms)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_states_that_do_not_exist_are_named(desk: Desk) -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "ongoing", "Lost"])
    answer = desk.mind.list(request, desk.now.wall_ms)
    assert answer.unknown_state_filters == ["ongoing", "Lost"]
    assert [state.transactional_id for state in answer.transaction_states] == ["open/1"]
    assert listed(desk, state_filters=["Lost"]) == []


def test_a_transaction_is_described_with_its_partitions(desk: Desk) -> None:
    state = desk.described("open/1")
    assert state == TransactionState(
        error_code=0,
        transactional_id="open/1",
        transaction_state="Ongoing",
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_start_time_ms=desk.now.wall_ms - 100,
        producer_id=state.producer_id,
        producer_epoch=0,
        topics=[TopicData("a", [0, 1]), TopicData("b", [0])],
    )


def test_ids_that_nobody_holds_are_not_found(desk: Desk) -> None:
    codes = [state.error_code for state in desk.mind.describe(["idle", "nobody", ""])]
    assert codes == [ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
