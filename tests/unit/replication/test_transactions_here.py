"""Transactions as one partition knows them: who may begin one, which are undecided, which markers come too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_OFFSET
from headrace.replication import open_transactions as transactions
from headrace.replication.open_transactions import EndedTransaction, OpenTransactions, TransactionClaim
from headrace.replication.producers import Duplicate, ProducerStates, StagedProducers
from tests.unit.replication.test_producers import ABORT, COMMIT, batch, granted, inside, marker, states_of

if TYPE_CHECKING:
    from headrace.wire.batches.header import BatchHeader


class TestStability:
    def test_nothing_is_open_at_first(self) -> None:
        assert OpenTransactions().first_unstable_offset == NO_OFFSET

    def test_the_oldest_counts(self) -> None:
        opened = OpenTransactions()
        opened.begin(7, 10)
        opened.begin(8, 20)
        assert opened.first_unstable_offset == 10
        opened.end(8, 30, is_commit=True)
        opened.settle(31)
        assert opened.first_unstable_offset == 10

    def test_a_transaction_is_over_once_its_marker_is_committed(self) -> None:
        opened = OpenTransactions()
        opened.begin(7, 10)
        opened.end(7, 30, is_commit=True)
        assert 7 not in opened
        opened.settle(30)
        assert opened.first_unstable_offset == 10, "the high watermark does not cover the marker yet"
        opened.settle(31)
        assert opened.first_unstable_offset == NO_OFFSET

    def test_a_producer_goes_on_while_its_last_marker_is_not_committed(self) -> None:
        opened = OpenTransactions()
        opened.begin(7, 10)
        opened.end(7, 11, is_commit=True)
        opened.begin(7, 12)
        opened.settle(12)
        assert opened.first_unstable_offset == 12

    def test_an_end_says_how_far_things_are_stable_then(self) -> None:
        opened = OpenTransactions()
        for producer_id, first_offset in ((7, 10), (8, 20), (9, 30)):
            opened.begin(producer_id, first_offset)
        assert opened.end(8, 40, is_commit=False) == EndedTransaction(8, 20, 40, False, 10)
        assert opened.end(7, 41, is_commit=False) == EndedTransaction(7, 10, 41, False, 30)
        assert opened.end(9, 42, is_commit=True) == EndedTransaction(9, 30, 42, True, 43)

    def test_a_marker_without_a_transaction_ends_nothing(self) -> None:
        assert OpenTransactions().end(7, 40, is_commit=False) is None

    def test_a_snapshot_is_taken_up_in_the_order_of_offsets(self) -> None:
        states = ProducerStates(states_of(inside(0, at=10, producer_id=9), inside(0, at=20, producer_id=3)).entries())
        assert states.transactions.first_unstable_offset == 10
        states.apply_marker(marker(at=30, producer_id=9), COMMIT)
        states.transactions.settle(31)
        assert states.transactions.first_unstable_offset == 20


class TestAdmission:
    def test_the_first_batch_needs_a_grant(self) -> None:
        staged = StagedProducers(ProducerStates())
        with pytest.raises(Refusal, match="no transaction that includes this partition") as refusal:
            staged.admit(inside(0), 0)
        assert refusal.value.code is ErrorCode.INVALID_TXN_STATE
        claim = staged.claim_for(inside(0))
        assert claim is not None
        assert (claim.producer_id, claim.producer_epoch) == (7, 0)
        staged.claims.grant(claim)
        assert staged.claim_for(inside(0)) is None
        assert staged.admit(inside(0), 0) is None

    def test_later_batches_need_none(self) -> None:
        staged = StagedProducers(states_of(inside(0)))
        assert staged.claim_for(inside(1)) is None
        assert staged.admit(inside(1), 1) is None

    def test_a_staged_batch_counts_as_the_first(self) -> None:
        staged = granted(ProducerStates())
        staged.admit(inside(0), 0)
        staged.claims.drop(7)
        assert staged.claim_for(inside(1)) is None
        assert staged.admit(inside(1), 1) is None

    def test_a_grant_ends_with_its_transaction(self) -> None:
        staged = granted(states_of(inside(0)))
        staged.claims.drop(7)
        states = states_of(inside(0), marker(at=1))
        assert StagedProducers(states).claim_for(inside(1)) is not None

    def test_a_grant_is_good_for_its_epoch_alone(self) -> None:
        staged = granted(ProducerStates(), epoch=1)
        with pytest.raises(Refusal) as refusal:
            staged.admit(inside(0, epoch=2), 0)
        assert refusal.value.code is ErrorCode.INVALID_TXN_STATE

    def test_an_open_transaction_of_an_older_epoch_is_no_grant(self) -> None:
        staged = StagedProducers(states_of(inside(0)))
        assert staged.claim_for(inside(0, epoch=1)) is not None

    def test_a_word_for_an_overtaken_claim_opens_nothing(self) -> None:
        staged = StagedProducers(ProducerStates())
        early = staged.claim(7, 0, 0)
        assert early is not None
        staged.claims.drop(7)  # a marker came in between
        late = staged.claim(7, 0, 0)
        staged.claims.grant(early)
        with pytest.raises(Refusal):
            staged.admit(inside(0), 0)
        assert late is not None
        staged.claims.grant(late)
        assert staged.admit(inside(0), 0) is None

    def test_a_granted_claim_is_not_pushed_aside_by_an_older_epoch(self) -> None:
        staged = granted(ProducerStates(), epoch=5)
        zombie = staged.claim(7, 4, 0)
        assert zombie is not None
        staged.claims.grant(zombie)
        assert staged.claim(7, 5, 0) is None, "still granted"
        with pytest.raises(Refusal):
            staged.admit(inside(0, epoch=4), 0)

    def test_what_is_answered_without_a_write_asks_for_nothing(self) -> None:
        states = states_of(inside(0, 2, at=10, epoch=3), marker(at=12, epoch=3))
        staged = StagedProducers(states)
        assert staged.claim_for(inside(0, 2, epoch=3)) is None
        assert staged.admit(inside(0, 2, epoch=3), 13) == Duplicate(10, 11, batch(0).max_timestamp, is_staged=False)
        assert staged.claim_for(inside(0, epoch=2)) is None
        with pytest.raises(Refusal) as refusal:
            staged.admit(inside(0, epoch=2), 13)
        assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_an_unknown_producer_does_not_overtake_itself(self) -> None:
        """Its first batch was refused after it had asked, its second came with a grant: the first must go first."""
        staged = StagedProducers(ProducerStates())
        staged.claim_for(inside(0))
        claim = staged.claim_for(inside(1))
        assert claim is not None
        staged.claims.grant(claim)
        with pytest.raises(Refusal) as refusal:
            staged.admit(inside(1), 0)
        assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert staged.admit(inside(0), 0) is None
        assert staged.admit(inside(1), 1) is None

    def test_after_a_marker_that_bumped_the_epoch_sequences_begin_again(self) -> None:
        staged = granted(states_of(inside(0, 5), marker(at=5, epoch=1)), epoch=1)
        assert staged.admit(inside(0, epoch=1), 6) is None

    def test_claims_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transactions, "CLAIMS_MAX", 10)
        staged = StagedProducers(ProducerStates())
        claims = [staged.claim(number, 0, 0) for number in range(11)]
        for claim in claims:
            assert isinstance(claim, TransactionClaim)
            staged.claims.grant(claim)
        assert staged.claim(0, 0, 0) is not None, "the oldest had to go"
        assert staged.claim(10, 0, 0) is None


OPEN = [inside(0, at=10, epoch=3)]
CLOSED = [*OPEN, marker(at=11, epoch=3)]
BUMPED = [*OPEN, marker(at=11, epoch=4)]


class TestMarkers:
    @pytest.mark.parametrize(
        ("written", "epoch", "version"),
        [
            pytest.param([], 0, 1, id="nobody known"),
            pytest.param(OPEN, 3, 1, id="same epoch, older kind"),
            pytest.param(OPEN, 4, 1, id="newer epoch, as when a producer is fenced"),
            pytest.param(OPEN, 4, 2, id="bumped epoch"),
            pytest.param(CLOSED, 3, 1, id="repeat of the older kind"),
            pytest.param(BUMPED, 4, 2, id="repeat of the newer kind"),
        ],
    )
    def test_accepted(self, written: list[BatchHeader], epoch: int, version: int) -> None:
        states_of(*written).check_marker(7, epoch, 4, version)

    @pytest.mark.parametrize(
        ("written", "epoch", "coordinator_epoch", "version", "code"),
        [
            pytest.param(OPEN, 2, 4, 1, "INVALID_PRODUCER_EPOCH", id="old epoch"),
            pytest.param(OPEN, 2, 4, 2, "INVALID_PRODUCER_EPOCH", id="old epoch, newer kind"),
            pytest.param(OPEN, 3, 4, 2, "INVALID_PRODUCER_EPOCH", id="newer kind for a transaction of its own epoch"),
            pytest.param(CLOSED, 3, 3, 1, "TRANSACTION_COORDINATOR_FENCED", id="old coordinator"),
        ],
    )
    def test_refused(
        self, written: list[BatchHeader], epoch: int, coordinator_epoch: int, version: int, code: str
    ) -> None:
        with pytest.raises(Refusal) as refusal:
            states_of(*written).check_marker(7, epoch, coordinator_epoch, version)
        assert refusal.value.code is ErrorCode[code]

    def test_a_late_marker_cannot_touch_the_next_transaction(self) -> None:
        """The marker of the first transaction (it carried epoch 4) is sent again after the second has begun."""
        states = states_of(*BUMPED, inside(0, at=12, epoch=4))
        with pytest.raises(Refusal) as refusal:
            states.check_marker(7, 4, 4, 2)
        assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinator_does_not_write_for_an_epoch_that_is_over() -> None:
    states = states_of(inside(-1, at=10, epoch=3))
    states.check_own(inside(-1, epoch=3))
    with pytest.raises(Refusal) as refusal:
        states.check_own(inside(-1, epoch=2))
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_abort_is_told_apart_from_a_commit() -> None:
    states = states_of(inside(0, at=10))
    ended = states.apply_marker(marker(at=11), ABORT)
    assert ended is not None
    assert not ended.is_commit
