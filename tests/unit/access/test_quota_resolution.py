"""Which quota holds for a client: Kafka's order of precedence, and who shares a quota."""

from __future__ import annotations

import pytest

from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, IP, USER, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.access.quotas.resolution import quota_of_address, quota_of_client

USER_ALICE, ANY_USER = EntityPart(USER, "alice"), EntityPart(USER, DEFAULT)
ID_APP, ANY_ID = EntityPart(CLIENT_ID, "app"), EntityPart(CLIENT_ID, DEFAULT)
KEY = QuotaKey.PRODUCED_BYTES

IN_ORDER = [
    ((ID_APP, USER_ALICE), (ID_APP, USER_ALICE)),
    ((ANY_ID, USER_ALICE), (ID_APP, USER_ALICE)),
    ((USER_ALICE,), (USER_ALICE,)),
    ((ID_APP, ANY_USER), (ID_APP, USER_ALICE)),
    ((ANY_ID, ANY_USER), (ID_APP, USER_ALICE)),
    ((ANY_USER,), (USER_ALICE,)),
    ((ID_APP,), (ID_APP,)),
    ((ANY_ID,), (ID_APP,)),
]
"""As Kafka documents it, the first that there is holds; and by whom it is shared."""


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_first_quota_in_kafkas_order_holds(first: int) -> None:
    quotas = {entity: {KEY.value: 100.0 + place} for place, (entity, _) in enumerate(IN_ORDER) if place >= first}
    found = quota_of_client(quotas, KEY, "alice", "app")
    assert found is not None
    assert (found.rate, found.shared_by) == (100.0 + first, IN_ORDER[first][1])


def test_each_key_is_looked_up_by_itself() -> None:
    quotas = {
        (ID_APP, USER_ALICE): {QuotaKey.FETCHED_BYTES.value: 1.0},
        (ANY_ID,): {QuotaKey.PRODUCED_BYTES.value: 2.0},
    }
    produced = quota_of_client(quotas, QuotaKey.PRODUCED_BYTES, "alice", "app")
    fetched = quota_of_client(quotas, QuotaKey.FETCHED_BYTES, "alice", "app")
    assert produced is not None
    assert fetched is not None
    assert (produced.rate, fetched.rate) == (2.0, 1.0)


def test_whoever_is_not_named_has_no_quota() -> None:
    quotas = {(ID_APP, USER_ALICE): {KEY.value: 1.0}, (ID_APP,): {KEY.value: 1.0}}
    assert quota_of_client(quotas, KEY, "alice", "other") is None
    assert quota_of_client({}, KEY, "alice", "app") is None


def test_two_with_the_same_default_do_not_share_it() -> None:
    quotas = {(ANY_USER,): {KEY.value: 1.0}}
    alice, bob = (quota_of_client(quotas, KEY, user, "app") for user in ("alice", "bob"))
    assert alice is not None
    assert bob is not None
    assert alice.shared_by != bob.shared_by


def test_an_address_goes_before_the_default_one() -> None:
    key = QuotaKey.CONNECTIONS
    quotas = {(EntityPart(IP, "192.0.2.7"),): {key.value: 5.0}, (EntityPart(IP, DEFAULT),): {key.value: 9.0}}
    own, other = quota_of_address(quotas, key, "192.0.2.7"), quota_of_address(quotas, key, "192.0.2.8")
    assert own == ((EntityPart(IP, "192.0.2.7"),), 5.0)
    assert other == ((EntityPart(IP, "192.0.2.8"),), 9.0)
