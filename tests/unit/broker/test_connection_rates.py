"""Connections that come too fast wait, of the whole node or of one address; who would wait for long is sent away."""

from __future__ import annotations

import pytest

from headrace.access.quotas.entity import DEFAULT, IP, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.broker.access.connection_rates import WAIT_MAX_S, ConnectionRates
from tests.unit.broker.quota_view import HandClock, View

ANY_ADDRESS = (EntityPart(IP, DEFAULT),)
HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def rates(view: View, clock: HandClock) -> ConnectionRates:
    return ConnectionRates(view, clock)  # type: ignore[arg-type]  # all of a view that it looks at


def come(rates: ConnectionRates, count: int, host: str = HERE) -> list[float | None]:
    return [rates.came(host) for _ in range(count)]


def test_without_limits_nobody_waits(rates: ConnectionRates) -> None:
    assert come(rates, 1000) == [0.0] * 1000


def test_an_address_has_its_window_at_once_then_its_rate_and_then_no_more(
    rates: ConnectionRates, view: View, clock: HandClock
) -> None:
    view.set(ANY_ADDRESS, QuotaKey.CONNECTIONS, 10.0)
    assert come(rates, 110) == [0.0] * 110
    waits = come(rates, 200)
    waiting = [wait_s for wait_s in waits if wait_s is not None]
    assert waiting == pytest.approx([number / 10 for number in range(1, len(waiting) + 1)])
    assert max(waiting) == pytest.approx(WAIT_MAX_S, abs=0.2)
    assert waits[len(waiting) :] == [None] * (200 - len(waiting))
    assert rates.came(THERE) == 0.0, "another address has its own"
    clock.now_s += 1.0
    assert sum(wait_s is not None for wait_s in come(rates, 100)) == 10, "those sent away did not count"


def test_an_address_that_is_named_has_its_own_rate(rates: ConnectionRates, view: View) -> None:
    view.set(ANY_ADDRESS, QuotaKey.CONNECTIONS, 1000.0)
    view.set((EntityPart(IP, HERE),), QuotaKey.CONNECTIONS, 1.0)
    assert come(rates, 12)[-1] == pytest.approx(1.0)
    assert come(rates, 12, THERE)[-1] == 0.0
    assert come(rates, 1, f"::ffff:{HERE}")[-1] == pytest.approx(2.0), "the same address, over IPv6"


def test_a_node_has_one_rate_for_all_which_may_change(rates: ConnectionRates, view: View) -> None:
    view.max_connection_creation_rate = 10
    waits = [rates.came(f"192.0.2.{number % 200}") for number in range(120)]
    assert waits[:110] == [0.0] * 110
    assert waits[-1] == pytest.approx(1.0)
    view.max_connection_creation_rate = 1000
    assert rates.came(HERE) == pytest.approx(0.001)


def test_a_listener_may_have_a_rate_of_its_own(rates: ConnectionRates) -> None:
    slow = rates.bucket(1)
    assert [rates.came(HERE, slow) for _ in range(12)][-1] == pytest.approx(1.0)
    assert rates.came(HERE) == 0.0
