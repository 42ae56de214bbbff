"""What a client has used is kept to the quotas in force: by each of them, and by those that change while it runs."""

from __future__ import annotations

import pytest

from headrace.access.identity import Identity, Principal
from headrace.access.quotas.buckets import SIZE_MAX
from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, IP, USER, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.broker.access.client_quotas import ClientQuotas, ClientUsage
from tests.unit.broker.quota_view import HandClock, View

ALICE = Identity(Principal("User", "alice"), "127.0.0.1")
BOB = Identity(Principal("User", "bob"), "127.0.0.1")
USER_ALICE, ANY_USER = (EntityPart(USER, "alice"),), (EntityPart(USER, DEFAULT),)
ANY_ID = (EntityPart(CLIENT_ID, DEFAULT),)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def quotas(view: View, clock: HandClock) -> ClientQuotas:
    part = ClientQuotas(view, clock)  # type: ignore[arg-type]  # all of a view that it looks at
    view.listeners.append(part)
    return part


def usage(quotas: ClientQuotas, identity: Identity = ALICE, client_id: str = "app") -> ClientUsage:
    found = quotas.usage_of(identity, client_id)
    assert found is not None
    return found


def test_without_quotas_nobody_is_counted(quotas: ClientQuotas, view: View) -> None:
    assert not quotas.are_any
    assert quotas.usage_of(ALICE, "app") is None
    view.set((EntityPart(IP, "127.0.0.1"),), QuotaKey.CONNECTIONS, 1.0)
    assert not quotas.are_any, "a quota of connections is none for requests"


def test_whoever_has_no_quota_is_not_counted_beside_one_that_has(quotas: ClientQuotas, view: View) -> None:
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 1000.0)
    assert quotas.are_any
    assert quotas.usage_of(BOB, "app") is None
    assert usage(quotas).fetched(1 << 30) == 0.0, "only what is produced has a quota"


def test_a_named_quota_goes_before_a_default(quotas: ClientQuotas, view: View) -> None:
    view.set(ANY_USER, QuotaKey.PRODUCED_BYTES, 1000.0)
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 4000.0)
    assert usage(quotas).produced(4000) == pytest.approx(1.0)
    assert usage(quotas, BOB).produced(4000) == pytest.approx(4.0)


def test_a_rate_holds_whatever_the_sizes(quotas: ClientQuotas, view: View, clock: HandClock) -> None:
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 1000.0)
    began_s, sent = clock.now_s, 0
    for size in [1, 5000, 20, 700, 3, 12_000, 90] * 20:
        sent += size
        clock.now_s += usage(quotas).produced(size)
    assert sent / (clock.now_s - began_s) == pytest.approx(1000, rel=0.01)


def test_all_client_ids_of_a_user_share_its_quota_and_each_has_the_default_for_itself(
    quotas: ClientQuotas, view: View
) -> None:
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 1000.0)
    view.set(ANY_ID, QuotaKey.FETCHED_BYTES, 1000.0)
    one, other = usage(quotas, client_id="one"), usage(quotas, client_id="other")
    assert one.produced(1000) == pytest.approx(1.0)
    assert other.produced(1000) == pytest.approx(2.0)
    assert usage(quotas, BOB, "third").fetched(1000) == pytest.approx(1.0)
    assert usage(quotas, BOB, "fourth").fetched(1000) == pytest.approx(1.0)


def test_time_of_requests_is_in_hundredths_of_one_thread(quotas: ClientQuotas, view: View, clock: HandClock) -> None:
    view.set(USER_ALICE, QuotaKey.REQUEST_TIME, 10.0)
    assert usage(quotas).spent(0.05) == pytest.approx(0.5)
    clock.now_s += 0.5
    assert usage(quotas).spent(0.001) == pytest.approx(0.01)


def test_partitions_may_be_created_at_once_after_a_while_of_none(
    quotas: ClientQuotas, view: View, clock: HandClock
) -> None:
    view.set(USER_ALICE, QuotaKey.MUTATIONS, 2.0)
    mine = usage(quotas)
    assert mine.mutated(22) == 0.0
    assert mine.mutated(4) == pytest.approx(2.0)
    assert mine.mutations_owed_s() == pytest.approx(2.0)
    assert mine.mutated(-2) == pytest.approx(1.0)
    clock.now_s += 1.0
    assert mine.mutations_owed_s() == 0.0


def test_a_quota_that_changes_is_in_force_at_once(quotas: ClientQuotas, view: View) -> None:
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 10.0)
    assert usage(quotas).produced(1000) == pytest.approx(100.0)
    before = quotas.in_force
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 1000.0)
    assert usage(quotas).produced(1000) == pytest.approx(1.0), "more is allowed: what was owed is forgotten"
    assert quotas.in_force is not before
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, None)
    assert not quotas.are_any


def test_an_answer_has_no_more_than_flows_in_a_sample_or_was_saved(
    quotas: ClientQuotas, view: View, clock: HandClock
) -> None:
    view.set(USER_ALICE, QuotaKey.FETCHED_BYTES, 1000.0)
    mine = usage(quotas)
    assert mine.fetch_room(1 << 30) == 1000
    assert mine.fetch_room(10) == 10
    assert mine.fetched(3000) == pytest.approx(3.0)
    assert mine.fetch_owed_s() == pytest.approx(3.0)
    clock.now_s += 8.0
    assert mine.fetch_owed_s() == 0.0
    assert mine.fetch_room(1 << 30) == 5000
    clock.now_s += 1000.0
    assert mine.fetch_room(1 << 30) == 11_000, "no more is saved than flows in the whole window"


def test_a_snapshot_in_place_of_records_is_in_force_at_once(quotas: ClientQuotas, view: View) -> None:
    view.listeners.clear()
    before = view.image
    view.set(USER_ALICE, QuotaKey.PRODUCED_BYTES, 10.0)
    quotas.jumped(before, view.image)
    assert usage(quotas).produced(10) == pytest.approx(1.0)


def test_clients_that_invent_names_take_a_bounded_table(quotas: ClientQuotas, view: View) -> None:
    view.set(ANY_ID, QuotaKey.PRODUCED_BYTES, 1000.0)
    for number in range(SIZE_MAX + 100):
        usage(quotas, client_id=f"client-{number}").produced(1)
    assert len(quotas) == SIZE_MAX
