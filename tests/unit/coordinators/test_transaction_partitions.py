"""Adding partitions to transactions, and asking whether they are in one."""

from __future__ import annotations

import pytest

from headrace.coordinators.transactions.answers import ADD_KNOWS_FENCED, known_error
from headrace.model.errors import ErrorCode
from tests.unit.coordinators.transactions_at_work import A0, A1, B0, Desk


def partitions(desk: Desk) -> dict[str, list[int]]:
    return {topic.topic: topic.partitions for topic in desk.described().topics}


def test_the_first_partition_begins_the_transaction() -> None:
    desk = Desk()
    identity = desk.start()
    desk.pass_ms(10)
    assert desk.add(identity, A1) == ErrorCode.NONE
    assert desk.described().transaction_start_time_ms == desk.now.wall_ms
    desk.pass_ms(10)
    assert desk.codes(identity, [B0, A0]) == {B0: ErrorCode.NONE, A0: ErrorCode.NONE}
    assert desk.described().transaction_start_time_ms == desk.now.wall_ms - 10
    assert (desk.state, partitions(desk)) == ("Ongoing", {"a": [0, 1], "b": [0]})


def test_what_is_in_already_is_not_written_again() -> None:
    desk = Desk()
    identity = desk.start()
    desk.add(identity, A0, A1)
    before = len(desk.log)
    assert desk.add(identity, A1) == ErrorCode.NONE
    assert len(desk.log) == before


def test_each_transaction_begins_with_no_partitions() -> None:
    desk = Desk()
    identity = desk.transaction(desk.start())
    desk.add(identity, B0)
    assert partitions(desk) == {"b": [0]}


@pytest.mark.parametrize("verify_only", [False, True])
def test_only_the_holder_adds_partitions(verify_only: bool) -> None:
    desk = Desk()
    producer_id, epoch = desk.start()

    def code(producer_id: int, epoch: int, transactional_id: str = "app") -> ErrorCode:
        return desk.codes((producer_id, epoch), [A0], 2, transactional_id, verify_only)[A0]

    assert code(producer_id + 1, epoch) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(producer_id, epoch + 1) == ErrorCode.PRODUCER_FENCED
    assert code(producer_id, -1) == ErrorCode.PRODUCER_FENCED
    assert code(producer_id, epoch, "other") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(producer_id, epoch, "") == ErrorCode.INVALID_REQUEST
    assert desk.state == "Empty"


def test_verifying_tells_which_are_in_and_changes_nothing() -> None:
    desk = Desk()
    identity = desk.start()
    assert desk.verify(identity, A0) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    desk.add(identity, A0)
    before = len(desk.log)
    assert desk.verify(identity, A0, A1) == {A0: ErrorCode.NONE, A1: ErrorCode.TRANSACTION_ABORTABLE}
    assert len(desk.log) == before
    desk.end(identity, version=4)
    desk.write_markers()
    assert desk.verify(identity, A0) == {A0: ErrorCode.TRANSACTION_ABORTABLE}


def test_only_versions_that_know_the_fence_are_told_of_it() -> None:
    assert known_error(ErrorCode.PRODUCER_FENCED, 1, ADD_KNOWS_FENCED) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert known_error(ErrorCode.PRODUCER_FENCED, 2, ADD_KNOWS_FENCED) == ErrorCode.PRODUCER_FENCED
    assert known_error(ErrorCode.INVALID_TXN_STATE, 0, ADD_KNOWS_FENCED) == ErrorCode.INVALID_TXN_STATE
