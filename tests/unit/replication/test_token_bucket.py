from __future__ import annotations

import math

import pytest

from headrace.replication.token_bucket import HOLDS_S, PORTION_S, TokenBucket

RATE = 1000


def sent_in(seconds: float, rate: int, batch: int) -> int:
    """By somebody who sends whole batches, and waits for as long as he is told to."""
    bucket, now_s, sent = TokenBucket(rate, 0.0), 0.0, 0
    while now_s < seconds:
        if bucket.room(now_s) > 0:
            bucket.took(batch, now_s)
            sent += batch
        else:
            now_s += bucket.ready_in_s(now_s)
    return sent


@pytest.mark.parametrize("batch", [3, 100, 999, 5_000])
@pytest.mark.parametrize("rate", [RATE, 12_345])
def test_the_rate_holds_whatever_the_sizes(rate: int, batch: int) -> None:
    assert sent_in(100, rate, batch) == pytest.approx(100 * rate, rel=0.06)


def test_it_begins_empty_and_holds_no_more_than_a_moment() -> None:
    bucket = TokenBucket(RATE, 5.0)
    assert bucket.room(5.0) == 0
    assert bucket.room(1000.0) == RATE * HOLDS_S


def test_a_debt_is_paid_off_first() -> None:
    bucket = TokenBucket(RATE, 0.0)
    bucket.took(3 * RATE, 0.0)
    assert bucket.ready_in_s(0.0) == pytest.approx(3 + PORTION_S)
    assert bucket.room(2.9) == 0
    assert bucket.room(3.1) == pytest.approx(100, abs=1)


def test_a_faster_rate_forgives_debts() -> None:
    bucket = TokenBucket(1, 0.0)
    bucket.took(1_000_000, 0.0)
    bucket.change_rate(RATE, 1.0)
    assert bucket.room(1.0 + 2 * PORTION_S) > 0


def test_nothing_at_all() -> None:
    bucket = TokenBucket(0, 0.0)
    assert bucket.room(1e9) == 0
    assert math.isinf(bucket.ready_in_s(1e9))


def test_a_wait_ends_later_than_it_began() -> None:
    """Also one that lacks less than a clock's step."""
    bucket = TokenBucket(RATE, 0.0)
    almost_s = PORTION_S * (1 - 1e-15)
    assert bucket.room(almost_s) == 0
    assert almost_s + bucket.ready_in_s(almost_s) > almost_s
