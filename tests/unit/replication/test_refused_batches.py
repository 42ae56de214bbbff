"""What is remembered of refused batches: bounded for a node, and what is forgotten does no harm."""

from __future__ import annotations

import pytest

from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.replication.producers import ProducerStates, StagedProducers
from headrace.replication.refused_batches import RefusedBatches, RefusedLine
from headrace.wire.batches.header import BatchHeader

TOO_FEW = Reason(ErrorCode.NOT_ENOUGH_REPLICAS, "one replica is in sync")


def batch(sequence: int, producer_id: int = 7) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, 0, 0, 0, 0, producer_id, 0, sequence, 1)


def staged_in(line: RefusedLine, *written: BatchHeader) -> StagedProducers:
    states = ProducerStates()
    for header in written:
        states.apply(header)
    return StagedProducers(states, RefusedBatches(line))


def code_of(staged: StagedProducers, header: BatchHeader) -> ErrorCode:
    try:
        staged.admit(header, 0)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def test_the_limit_is_for_all_partitions_together_and_the_oldest_goes() -> None:
    line = RefusedLine(size_max=3)
    first, second = staged_in(line), staged_in(line)
    first.refused.note(batch(0, producer_id=1), TOO_FEW)
    for producer_id in (2, 3, 4, 5):
        second.refused.note(batch(0, producer_id), TOO_FEW)
    assert len(line) == 3
    assert not first.refused.by_producer
    assert list(second.refused.by_producer) == [3, 4, 5]


def test_what_follows_a_forgotten_refusal_of_a_known_producer_is_out_of_order() -> None:
    staged = staged_in(RefusedLine(size_max=1), batch(3))
    staged.refused.note(batch(4), TOO_FEW)
    staged.refused.note(batch(0, producer_id=8), TOO_FEW)
    assert code_of(staged, batch(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(staged, batch(4)) is ErrorCode.NONE


def test_nor_is_it_taken_from_a_producer_that_is_not_known() -> None:
    staged = staged_in(RefusedLine(size_max=1))
    staged.refused.note(batch(0), TOO_FEW)
    staged.refused.note(batch(0, producer_id=8), TOO_FEW)
    assert code_of(staged, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(staged, batch(0)) is ErrorCode.NONE
    assert code_of(staged, batch(1)) is ErrorCode.NONE


def test_a_partition_that_has_forgotten_nothing_lets_a_stranger_begin_anywhere() -> None:
    line = RefusedLine(size_max=1)
    forgetful, other = staged_in(line), staged_in(line)
    forgetful.refused.note(batch(0), TOO_FEW)
    other.refused.note(batch(0, producer_id=8), TOO_FEW)
    assert code_of(other, batch(5)) is ErrorCode.NONE
    assert code_of(forgetful, batch(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_a_while_nothing_is_left_of_it() -> None:
    line = RefusedLine(size_max=2)
    staged = staged_in(line)
    for producer_id in (7, 8, 9):
        staged.refused.note(batch(0, producer_id), TOO_FEW)
    staged.refused.forget_old()
    staged.refused.note(batch(0, 9), TOO_FEW)  # this one came again in between
    assert code_of(staged, batch(1, 8)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert code_of(staged, batch(1, 7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    staged.refused.forget_old()
    assert list(staged.refused.by_producer) == [9]
    assert len(line) == 1
    assert code_of(staged, batch(1, 7)) is ErrorCode.NONE
    staged.refused.forget_old()
    assert len(line) == 0


def test_a_new_epoch_begins_without_memories() -> None:
    line = RefusedLine(size_max=1)
    staged = staged_in(line)
    staged.refused.note(batch(0), TOO_FEW)
    staged.refused.note(batch(0, producer_id=8), TOO_FEW)
    staged.refused.forget_all()
    assert len(line) == 0
    assert code_of(staged, batch(5)) is ErrorCode.NONE


def test_a_retry_takes_its_place_in_the_line_away() -> None:
    line = RefusedLine()
    staged = staged_in(line)
    staged.refused.note(batch(0), TOO_FEW)
    assert len(line) == 1
    assert code_of(staged, batch(0)) is ErrorCode.NONE
    assert len(line) == 0


def test_a_reason_becomes_a_refusal_and_a_refusal_a_reason() -> None:
    with pytest.raises(Refusal, match="one replica is in sync") as raised:
        raise TOO_FEW.refusal()
    assert raised.value.reason == TOO_FEW
