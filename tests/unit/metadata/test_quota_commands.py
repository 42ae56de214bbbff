"""AlterClientQuotas and DescribeClientQuotas as commands: what is refused, and what a filter finds."""

from __future__ import annotations

import math

import pytest

from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, IP, USER, EntityPart
from headrace.access.quotas.filters import FilterPart, MatchType
from headrace.metadata.commands import quota_commands
from headrace.metadata.commands.quota_commands import EntityEdits, QuotaEdit, alter_quotas, describe_quotas
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.metadata.image.records import QuotaChanged
from headrace.model.errors import ErrorCode, Refusal
from tests.unit.metadata.small_cluster import refused

ALICE, EVERYBODY = EntityPart(USER, "alice"), EntityPart(USER, DEFAULT)
APP, ANY_APP = EntityPart(CLIENT_ID, "app"), EntityPart(CLIENT_ID, DEFAULT)
HERE, ANYWHERE = EntityPart(IP, "192.0.2.7"), EntityPart(IP, DEFAULT)
PRODUCE = "producer_byte_rate"
CONNECT = "connection_creation_rate"


def setting(*parts, key=PRODUCE, value=1024.0):
    return EntityEdits(parts, (QuotaEdit(key, value),))


def image_with(*wanted):
    decision = alter_quotas(EMPTY_IMAGE, wanted)
    assert not any(isinstance(outcome.result, Refusal) for outcome in decision.response)
    return EMPTY_IMAGE.apply_all(decision.records)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (setting(), "entity is empty"),
        (setting(EntityPart("group", "g")), "'group' is nothing that has quotas"),
        (setting(ALICE, EntityPart(USER, "bob")), "user twice"),
        (setting(EntityPart(USER, "")), "empty name"),
        (setting(EntityPart(USER, "x" * 1025)), "1025 characters"),
        (setting(HERE, ALICE, key=CONNECT), "does not go together"),
        (setting(EntityPart(IP, "somewhere"), key=CONNECT), "is no IP address"),
        (setting(ALICE, key="bytes"), "'bytes' cannot be set for user 'alice'; what can be is producer_byte_rate"),
        (setting(ALICE, key=CONNECT), "cannot be set for user 'alice'"),
        (setting(HERE), "'producer_byte_rate' cannot be set for ip '192.0.2.7'; what can be is connection_creation"),
        (setting(ALICE, value=0.0), "greater than 0"),
        (setting(ALICE, value=-1.0), "greater than 0"),
        (setting(ALICE, value=math.nan), "greater than 0"),
        (setting(ALICE, value=math.inf), "greater than 0"),
        (setting(ALICE, value=1e19), "at most"),
        (setting(ALICE, value=10.5), "whole number"),
        (setting(ALICE, value=1e-9), "whole number"),
        (setting(HERE, key=CONNECT, value=2.0**31), "at most 2147483647"),
        (EntityEdits((ALICE,), (QuotaEdit(PRODUCE, 1.0), QuotaEdit(PRODUCE, None))), "more than once"),
    ],
)
def test_what_cannot_be_is_refused_and_says_why(wanted, words):
    decision = alter_quotas(EMPTY_IMAGE, [wanted, setting(EVERYBODY)])
    code, message = refused(decision.response[0])
    assert code is ErrorCode.INVALID_REQUEST
    assert words in message
    assert decision.records == (QuotaChanged((EVERYBODY,), PRODUCE, 1024.0),), "the others of the request are done"


def test_a_request_that_names_an_entity_twice_changes_it_not_at_all():
    decision = alter_quotas(EMPTY_IMAGE, [setting(ALICE, APP), setting(APP, ALICE, value=5.0)])
    assert [refused(outcome)[0] for outcome in decision.response] == [ErrorCode.INVALID_REQUEST] * 2
    assert decision.records == ()


def test_the_order_of_the_parts_does_not_matter():
    image = image_with(setting(ALICE, APP))
    decision = alter_quotas(image, [EntityEdits((APP, ALICE), (QuotaEdit(PRODUCE, None),))])
    assert image.apply_all(decision.records) == EMPTY_IMAGE


def test_an_address_is_kept_in_its_one_form():
    image = image_with(setting(EntityPart(IP, "2001:DB8:0::7"), key=CONNECT))
    assert list(image.access.quotas) == [(EntityPart(IP, "2001:db8::7"),)]


def test_what_is_so_already_and_what_is_not_there_needs_no_record():
    image = image_with(setting(ALICE))
    unset = EntityEdits((EVERYBODY,), (QuotaEdit(PRODUCE, None),))
    decision = alter_quotas(image, [setting(ALICE), unset])
    assert decision.records == ()
    assert not any(isinstance(outcome.result, Refusal) for outcome in decision.response)


def test_validate_only_refuses_the_same_and_changes_nothing():
    decision = alter_quotas(EMPTY_IMAGE, [setting(ALICE), setting(ALICE, APP, value=-1.0)], validate_only=True)
    assert decision.records == ()
    assert [isinstance(outcome.result, Refusal) for outcome in decision.response] == [False, True]


def test_a_rate_that_came_through_a_computation_is_whole():
    assert image_with(setting(ALICE, value=0.1 * 3 * 10)).access.quotas[(ALICE,)][PRODUCE] == 3.0


def test_percentages_and_mutations_have_fractions():
    image = image_with(setting(ALICE, key="request_percentage", value=0.5))
    assert image.access.quotas[(ALICE,)]["request_percentage"] == 0.5


def test_entities_are_limited(monkeypatch):
    monkeypatch.setattr(quota_commands, "ENTITIES_MAX", 2)
    decision = alter_quotas(EMPTY_IMAGE, [setting(ALICE), setting(APP), setting(ALICE, APP)])
    assert refused(decision.response[2])[0] is ErrorCode.POLICY_VIOLATION
    full = EMPTY_IMAGE.apply_all(decision.records)
    again = alter_quotas(full, [setting(ALICE, value=5.0)])
    assert again.records, "those that are there can be changed"


FULL = [
    setting(ALICE, APP),
    setting(ALICE, ANY_APP),
    setting(ALICE),
    setting(EVERYBODY, APP),
    setting(EVERYBODY),
    setting(APP),
    setting(ANY_APP),
    setting(HERE, key=CONNECT),
    setting(ANYWHERE, key=CONNECT),
]

EXACT, DEF, ANY = MatchType.EXACT, MatchType.DEFAULT, MatchType.ANY


@pytest.mark.parametrize(
    ("parts", "is_strict", "found"),
    [
        ([], False, FULL),
        ([], True, []),
        ([(USER, EXACT, "alice")], False, FULL[:3]),
        ([(USER, EXACT, "alice")], True, FULL[2:3]),
        ([(USER, DEF)], False, FULL[3:5]),
        ([(USER, DEF)], True, FULL[4:5]),
        ([(USER, ANY)], True, [FULL[2], FULL[4]]),
        ([(USER, ANY), (CLIENT_ID, ANY)], False, [FULL[0], FULL[1], FULL[3]]),
        ([(CLIENT_ID, EXACT, "app"), (USER, EXACT, "alice")], True, FULL[:1]),
        ([(CLIENT_ID, ANY)], True, FULL[5:7]),
        ([(IP, ANY)], False, FULL[7:]),
        ([(IP, DEF)], False, FULL[8:]),
        ([(USER, EXACT, "bob")], False, []),
    ],
)
def test_a_filter_finds_what_it_describes(parts, is_strict, found):
    image = image_with(*FULL)
    answer = describe_quotas(image, [FilterPart(*part) for part in parts], is_strict=is_strict)
    expected = {tuple(sorted(edits.entity, key=str)): edits.edits[0] for edits in found}
    assert {quotas.entity: QuotaEdit(*quotas.values[0]) for quotas in answer} == expected


@pytest.mark.parametrize(
    ("parts", "code", "words"),
    [
        ([("", ANY)], ErrorCode.INVALID_REQUEST, "no entity type"),
        ([("group", ANY)], ErrorCode.UNSUPPORTED_VERSION, "'group' is not known"),
        ([(USER, ANY), (USER, DEF)], ErrorCode.INVALID_REQUEST, "more than once"),
        ([(USER, EXACT)], ErrorCode.INVALID_REQUEST, "belongs a name"),
        ([(USER, DEF, "alice")], ErrorCode.INVALID_REQUEST, "belongs no name"),
        ([(USER, ANY, "alice")], ErrorCode.INVALID_REQUEST, "belongs no name"),
        ([(IP, ANY), (USER, ANY)], ErrorCode.INVALID_REQUEST, "does not go together"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(parts, code, words):
    with pytest.raises(Refusal) as refusal:
        describe_quotas(EMPTY_IMAGE, [FilterPart(*part) for part in parts], is_strict=False)
    assert refusal.value.code is code
    assert words in refusal.value.message
