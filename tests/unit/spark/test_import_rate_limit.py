"""Rates as people write them, and how long one waits to keep to them."""

from __future__ import annotations

import pytest

from headrace.cli.terminal.sizes import parse_size
from headrace_spark.offline.imports.rate_limit import Rate, RateLimiter


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10MB/s", Rate(bytes_per_s=1e7)),
        ("1.5 MiB/s", Rate(bytes_per_s=1.5 * (1 << 20))),
        ("500b/s", Rate(bytes_per_s=500)),
        ("50000/s", Rate(rows_per_s=50_000)),
    ],
)
def test_rates_are_read(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


@pytest.mark.parametrize("text", ["10MB", "0/s", "fast", "10 parsecs/s", "-5/s", ""])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="10MB/s or 50000/s"):
        Rate.parse(text)


def test_a_lot_waits_until_the_one_before_is_paid_for() -> None:
    limiter = RateLimiter(Rate(rows_per_s=100))

    assert limiter.wait_s(50, 0, now_s=10.0) == 0.0
    assert limiter.wait_s(10, 0, now_s=10.1) == pytest.approx(0.4)
    assert limiter.wait_s(10, 0, now_s=10.7) == 0.0


def test_lost_time_is_not_made_up_for() -> None:
    limiter = RateLimiter(Rate(bytes_per_s=100))
    limiter.wait_s(1, 100, now_s=0.0)

    assert limiter.wait_s(1, 100, now_s=50.0) == 0.0
    assert limiter.wait_s(1, 100, now_s=50.0) == pytest.approx(1.0)


def test_lanes_share_a_rate() -> None:
    assert Rate(bytes_per_s=100.0).shared_by(4) == Rate(bytes_per_s=25.0)
    assert Rate().shared_by(4).seconds_for(10**9, 10**12) == 0.0


@pytest.mark.parametrize(("text", "size"), [("256MB", 256 * 10**6), ("1GiB", 1 << 30), ("7", 7), ("1.5 kb", 1500)])
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "0", "1 parsec", "-1"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)
