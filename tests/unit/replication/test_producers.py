from __future__ import annotations

import pytest

from headrace.model.errors import ErrorCode, Reason, Refusal
from headrace.model.names import NO_OFFSET
from headrace.replication import producers
from headrace.replication.open_transactions import EndedTransaction
from headrace.replication.producers import (
    SEQUENCE_MAX,
    Duplicate,
    ProducerStates,
    StagedProducers,
)
from headrace.wire.batches.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from headrace.wire.batches.markers import Marker

DAY_MS = 86_400_000
NOON = 1_700_000_000_000
COMMIT = Marker(is_commit=True, coordinator_epoch=4)
ABORT = Marker(is_commit=False, coordinator_epoch=4)


def batch(
    sequence: int,
    count: int = 1,
    *,
    at: int = 0,
    epoch: int = 0,
    producer_id: int = 7,
    timestamp: int = NOON,
    attributes: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=at,
        length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def inside(sequence: int, count: int = 1, *, at: int = 0, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    """A batch of a transaction."""
    return batch(sequence, count, at=at, epoch=epoch, producer_id=producer_id, attributes=TRANSACTIONAL_BIT)


def marker(*, at: int = 0, epoch: int = 0, producer_id: int = 7, timestamp: int = NOON) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    return batch(-1, at=at, epoch=epoch, producer_id=producer_id, timestamp=timestamp, attributes=attributes)


def states_of(*written: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for header in written:
        if header.is_control:
            states.apply_marker(header, COMMIT)
        else:
            states.apply(header)
    return states


def granted(states: ProducerStates, epoch: int = 0, producer_id: int = 7, sequence: int = 0) -> StagedProducers:
    """Whatever the producer sends in this epoch, its coordinator agrees."""
    staged = StagedProducers(states)
    claim = staged.claim(producer_id, epoch, sequence)
    if claim is not None:
        staged.claims.grant(claim)
    return staged


FIVE = [batch(sequence, 10, at=100 + sequence, epoch=3) for sequence in (0, 10, 20, 30, 40)]


@pytest.mark.parametrize(
    ("written", "arriving"),
    [
        pytest.param([], batch(0), id="first batch of a new producer"),
        pytest.param([], batch(900, epoch=4), id="unknown producer may begin anywhere"),
        pytest.param(FIVE, batch(50, epoch=3), id="next in sequence"),
        pytest.param(FIVE, batch(0, epoch=4), id="new epoch begins at 0"),
        pytest.param(FIVE, batch(0, epoch=9), id="epochs may be skipped"),
        pytest.param([batch(SEQUENCE_MAX)], batch(0), id="sequence wraps to 0"),
        pytest.param([batch(SEQUENCE_MAX - 1, 4)], batch(2), id="a batch spans the wrap"),
        pytest.param([batch(-1, 3)], batch(0), id="a coordinator's batch has no sequence"),
        pytest.param([marker(epoch=2)], batch(0, epoch=2), id="after a marker alone"),
        pytest.param([batch(5)], batch(-1, producer_id=-1, epoch=-1), id="not idempotent"),
    ],
)
def test_admitted(written: list[BatchHeader], arriving: BatchHeader) -> None:
    assert StagedProducers(states_of(*written)).admit(arriving, 200) is None


@pytest.mark.parametrize(
    ("written", "arriving", "code", "message"),
    [
        pytest.param(
            FIVE, batch(51, epoch=3), "OUT_OF_ORDER_SEQUENCE_NUMBER", "sent sequence 51, expected 50", id="gap"
        ),
        pytest.param(FIVE, batch(49, epoch=3), "OUT_OF_ORDER_SEQUENCE_NUMBER", "expected 50", id="inside a batch"),
        pytest.param(FIVE, batch(40, 9, epoch=3), "OUT_OF_ORDER_SEQUENCE_NUMBER", "expected 50", id="shorter repeat"),
        pytest.param(
            [*FIVE, batch(50, epoch=3)],
            batch(0, 10, epoch=3),
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
            "expected 51",
            id="repeat of the sixth last",
        ),
        pytest.param(
            FIVE,
            batch(50, epoch=4),
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
            "began epoch 4 with sequence 50",
            id="new epoch not at 0",
        ),
        pytest.param(
            FIVE, batch(50, epoch=2), "INVALID_PRODUCER_EPOCH", "sent epoch 2, expected 3 or more", id="old epoch"
        ),
        pytest.param(
            FIVE, batch(0, 10, epoch=2), "INVALID_PRODUCER_EPOCH", "expected 3", id="old epoch, known sequence"
        ),
        pytest.param([], batch(0, epoch=-1), "INVALID_PRODUCER_EPOCH", "sent epoch -1", id="no epoch"),
        pytest.param([], batch(-1), "INVALID_RECORD", "sent sequence -1", id="no sequence"),
        pytest.param(FIVE, batch(-1, epoch=3), "INVALID_RECORD", "sent sequence -1", id="no sequence, known producer"),
        pytest.param([batch(-1)], batch(-1), "INVALID_RECORD", "sent sequence -1", id="no sequence is no repeat"),
        pytest.param(
            [batch(0, attributes=TRANSACTIONAL_BIT)],
            batch(1),
            "INVALID_TXN_STATE",
            "transaction open",
            id="plain batch inside a transaction",
        ),
    ],
)
def test_refused(written: list[BatchHeader], arriving: BatchHeader, code: str, message: str) -> None:
    states = states_of(*written)
    before = states.entries()
    with pytest.raises(Refusal, match=message) as refusal:
        StagedProducers(states).admit(arriving, 200)
    assert refusal.value.code is ErrorCode[code]
    assert states.entries() == before


@pytest.mark.parametrize("repeated", FIVE)
def test_a_repeat_of_the_last_five_is_answered_with_its_first_place(repeated: BatchHeader) -> None:
    staged = StagedProducers(states_of(*FIVE))
    arriving = repeated._replace(base_offset=0)
    expected = Duplicate(repeated.base_offset, repeated.last_offset, NOON, is_staged=False)
    assert staged.admit(arriving, 200) == expected
    assert staged.admit(batch(50, epoch=3), 200) is None, "a repeat must not move the sequence"


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    states = states_of(*FIVE, batch(0, 2, at=150, epoch=4))
    (producer,) = states.entries()
    assert (producer.epoch, len(producer.batches), producer.next_sequence, producer.last_offset) == (4, 1, 2, 151)
    with pytest.raises(Refusal, match="expected 2"):
        StagedProducers(states).admit(batch(10, 10, epoch=4), 200)


def test_a_repeat_across_the_wrap_is_recognised() -> None:
    spanning = batch(SEQUENCE_MAX - 1, 4, at=60)
    assert StagedProducers(states_of(spanning)).admit(spanning, 200) == Duplicate(60, 63, NOON, is_staged=False)


def test_staged_batches_follow_each_other_and_their_repeats_are_seen() -> None:
    states = states_of(batch(0, 2, at=10))
    staged = StagedProducers(states)
    assert staged.admit(batch(2, 3), 12) is None
    assert staged.admit(batch(5), 15) is None
    assert staged.admit(batch(2, 3), 16) == Duplicate(12, 14, NOON, is_staged=True)
    assert staged.admit(batch(0, 2), 16) == Duplicate(10, 11, NOON, is_staged=False)
    assert len(states) == 1
    assert states.entries()[0].next_sequence == 2, "staging must not touch what is written"


def test_a_new_producer_is_staged_like_any_other() -> None:
    staged = StagedProducers(ProducerStates())
    assert staged.admit(batch(0), 0) is None
    assert staged.admit(batch(0), 1) == Duplicate(0, 0, NOON, is_staged=True)
    with pytest.raises(Refusal, match="expected 1"):
        staged.admit(batch(2), 1)


def test_a_failed_write_leaves_no_trace() -> None:
    staged = StagedProducers(states_of(batch(0, at=10)))
    assert staged.admit(batch(1), 11) is None
    staged.clear()
    assert staged.admit(batch(1), 11) is None, "the client's retry is a first write, not a repeat"


def test_a_refused_batch_is_not_staged() -> None:
    staged = StagedProducers(states_of(batch(0, at=10)))
    with pytest.raises(Refusal):
        staged.admit(batch(5), 11)
    assert staged.admit(batch(1), 11) is None


def test_a_transaction_staged_in_the_same_callback_counts() -> None:
    staged = granted(ProducerStates())
    assert staged.admit(batch(0, attributes=TRANSACTIONAL_BIT), 0) is None
    with pytest.raises(Refusal) as refusal:
        staged.admit(batch(1), 1)
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_keeps_its_first_offset_until_the_marker() -> None:
    states = states_of(
        batch(0, at=10, attributes=TRANSACTIONAL_BIT),
        batch(1, at=20, attributes=TRANSACTIONAL_BIT),
    )
    assert states.entries()[0].current_txn_first_offset == 10
    ended = states.apply_marker(marker(at=21, timestamp=NOON + 5), ABORT)
    assert ended == EndedTransaction(7, 10, 21, is_commit=False, last_stable_offset=22)
    (producer,) = states.entries()
    assert producer.coordinator_epoch == 4
    assert producer.current_txn_first_offset == NO_OFFSET
    assert producer.last_timestamp_ms == NOON + 5
    assert producer.next_sequence == 2, "a marker of the same epoch leaves the sequence alone"


def test_a_marker_of_a_new_epoch_resets_the_sequence() -> None:
    states = states_of(batch(0, 9, at=10), marker(at=19, epoch=1))
    (producer,) = states.entries()
    assert (producer.epoch, producer.batches, producer.next_sequence) == (1, (), 0)


def test_batches_without_a_producer_are_not_remembered() -> None:
    assert len(states_of(batch(-1, producer_id=-1))) == 0


def test_entries_are_sorted_by_id() -> None:
    states = states_of(*(batch(0, at=number, producer_id=number) for number in (30, 10, 20)))
    assert [producer.producer_id for producer in states.entries()] == [10, 20, 30]


class TestExpiry:
    @pytest.mark.parametrize(("age_ms", "survives"), [(DAY_MS - 1, True), (DAY_MS, False), (-DAY_MS, True)])
    def test_goes_by_age(self, age_ms: int, survives: bool) -> None:
        states = states_of(batch(0, 3))
        states.expire(NOON)
        states.expire(NOON + age_ms)
        assert len(states) == survives

    def test_spares_who_wrote_since_the_last_call(self) -> None:
        states = states_of(batch(0, 2, at=0, timestamp=0))
        states.expire(NOON)
        assert len(states) == 1, "old records, new writing"
        states.apply(batch(2, 2, at=2, timestamp=0))
        states.expire(NOON)
        assert len(states) == 1
        states.expire(NOON)
        assert len(states) == 0

    def test_reaches_producers_that_came_from_a_snapshot(self) -> None:
        states = ProducerStates(states_of(batch(0, 5, at=40, timestamp=0)).entries())
        states.expire(NOON)
        states.expire(NOON)
        assert len(states) == 0

    def test_spares_open_transactions(self) -> None:
        states = states_of(batch(0, timestamp=0, attributes=TRANSACTIONAL_BIT))
        states.expire(NOON)
        states.expire(NOON)
        assert len(states) == 1

    def test_takes_another_span(self) -> None:
        states = states_of(batch(0))
        states.expire(NOON, expiration_ms=10)
        states.expire(NOON + 10, expiration_ms=10)
        assert len(states) == 0


def test_a_flood_of_producers_forgets_the_quietest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 20)
    states = states_of(batch(0, at=0, producer_id=1000, attributes=TRANSACTIONAL_BIT))
    for number in range(1, 20):
        states.apply(batch(0, at=number, producer_id=number))
    states.apply(batch(1, at=20, producer_id=1))
    states.apply(batch(0, at=21, producer_id=20))
    remembered = [producer.producer_id for producer in states.entries()]
    assert remembered == [1, *range(4, 21), 1000], "2 and 3 wrote longest ago; 1000 has a transaction open"


TOO_FEW = Reason(ErrorCode.NOT_ENOUGH_REPLICAS, "one replica is in sync")


def test_what_was_sent_behind_a_refused_batch_waits_for_it() -> None:
    staged = StagedProducers(ProducerStates())
    assert staged.admit(batch(0), 0) is None
    staged.refused.note(batch(1, 2), TOO_FEW)
    staged.refused.note(batch(3), TOO_FEW)
    for behind in (batch(3), batch(4)):
        with pytest.raises(Refusal) as refused:
            staged.admit(behind, 1)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert isinstance(staged.admit(batch(0), 1), Duplicate)
    assert staged.admit(batch(1, 2), 1) is None
    assert staged.admit(batch(3), 3) is None


def test_nor_does_a_new_producer_begin_in_the_middle() -> None:
    staged = StagedProducers(ProducerStates())
    staged.refused.note(batch(0), TOO_FEW)
    with pytest.raises(Refusal, match="an earlier batch was refused"):
        staged.admit(batch(1), 0)
    assert staged.admit(batch(0), 0) is None


def test_a_new_epoch_or_a_new_leadership_waits_for_nothing() -> None:
    staged = StagedProducers(ProducerStates())
    staged.refused.note(batch(5), TOO_FEW)
    assert staged.admit(batch(0, epoch=1), 0) is None
    assert staged.admit(batch(1, epoch=1), 1) is None
    staged.refused.note(batch(2, epoch=1), TOO_FEW)
    staged.refused.forget_all()
    with pytest.raises(Refusal) as refused:
        staged.admit(batch(3, epoch=1), 2)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_others_are_not_held_up() -> None:
    staged = StagedProducers(ProducerStates())
    staged.refused.note(batch(0), TOO_FEW)
    staged.refused.note(batch(-1, producer_id=-1, epoch=-1), TOO_FEW)
    assert staged.admit(batch(0, producer_id=8), 0) is None
    assert staged.admit(batch(-1, producer_id=-1, epoch=-1), 1) is None
