"""Buckets: the rate holds on average, whatever the sizes and the number of those who share it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.quotas.buckets import Bucket, Buckets, QuotaWindow

RATE = 1000.0


def used_in(seconds: float, sizes: list[int], clients: int) -> float:
    """By clients that each wait for as long as they are told to."""
    bucket = Bucket(RATE, 1.0, 0.0)
    free_at = [0.0] * clients
    used, turn = 0.0, 0
    while min(free_at) < seconds:
        client = free_at.index(min(free_at))
        size = sizes[turn % len(sizes)]
        free_at[client] += bucket.take(size, free_at[client])
        used += size
        turn += 1
    return used


@pytest.mark.parametrize("clients", [1, 4, 100])
@pytest.mark.parametrize("sizes", [[1], [100], [999, 1], [700, 20, 3]])
def test_the_rate_holds_for_all_together(sizes: list[int], clients: int) -> None:
    over = clients * max(sizes)  # what was let in at the end, and is not paid for yet
    assert used_in(200, sizes, clients) == pytest.approx(200 * RATE, abs=0.01 * 200 * RATE + over)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5000)), min_size=1, max_size=50))
def test_nobody_gets_more_than_the_rate_the_bucket_and_what_is_owed(steps: list[tuple[float, float]]) -> None:
    bucket, now_s, used = Bucket(RATE, 1.0, 0.0), 0.0, 0.0
    for pause_s, count in steps:
        now_s += pause_s
        owed_s = bucket.take(count, now_s)
        used += count
        assert used <= RATE * (now_s + owed_s) + RATE + 1e-3
        assert owed_s == pytest.approx(bucket.owed_s(now_s))


def test_what_was_not_used_for_long_is_lost() -> None:
    bucket = Bucket(RATE, 1.0, 0.0)
    assert bucket.take(RATE, 1000.0) == 0
    assert bucket.take(RATE, 1000.0) == pytest.approx(1.0)


def test_one_that_begins_full_lets_a_burst_in() -> None:
    bucket = Bucket(2.0, 10.0, 0.0, is_full=True)
    assert bucket.take(20, 0.0) == 0
    assert bucket.take(4, 0.0) == pytest.approx(2.0)


def test_a_slow_bucket_still_holds_one() -> None:
    bucket = Bucket(0.01, 1.0, 0.0, is_full=True)
    assert bucket.take(1, 0.0) == 0


def test_more_forgives_debts_and_less_does_not() -> None:
    faster, slower = Bucket(10.0, 1.0, 0.0), Bucket(10.0, 1.0, 0.0)
    for bucket in (faster, slower):
        bucket.take(100, 0.0)
    faster.change_rate(20.0, 1.0)
    slower.change_rate(5.0, 1.0)
    assert faster.owed_s(1.0) == 0
    assert slower.owed_s(1.0) == pytest.approx(18.0)


def test_those_who_share_a_name_share_a_bucket() -> None:
    buckets: Buckets[str] = Buckets(1.0)
    assert buckets.of("alice", RATE, 0.0) is buckets.of("alice", RATE, 5.0)
    assert buckets.of("alice", RATE, 5.0) is not buckets.of("bob", RATE, 5.0)


def test_a_new_rate_is_in_force_with_the_next_use() -> None:
    buckets: Buckets[str] = Buckets(1.0)
    buckets.of("alice", RATE, 0.0).take(RATE, 0.0)
    assert buckets.of("alice", RATE / 10, 0.0).owed_s(0.0) == pytest.approx(10.0)


def test_whoever_invents_names_has_no_more_than_a_table_of_them() -> None:
    buckets: Buckets[int] = Buckets(1.0, size_max=100)
    in_use = buckets.of(-1, RATE, 0.0)
    in_use.take(50 * RATE, 0.0)
    for name in range(10_000):
        buckets.of(name, RATE, 0.0)
        assert buckets.of(-1, RATE, 0.0) is in_use, "a bucket that is used is not forgotten"
    assert len(buckets) == 100


def test_a_window_is_its_samples_together() -> None:
    assert QuotaWindow(11, 2).total_s == 22
