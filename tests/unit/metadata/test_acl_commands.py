"""Access rules are created, listed and deleted as Kafka does it, and within limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.access.identity import Principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import Acl
from headrace.metadata.commands import acl_commands
from headrace.metadata.commands.acl_commands import (
    AclText,
    create_acls,
    delete_acls,
    find_acls,
    parse_filter,
)
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.model.errors import ErrorCode, Refusal
from tests.unit.metadata.small_cluster import refused

READS = AclText(2, "orders", 3, "User:alice", "*", 3, 3)
EVERYTHING = AclText(1, None, 1, None, None, 1, 1)


def created(*texts: AclText):
    decision = create_acls(EMPTY_IMAGE, texts)
    assert not any(isinstance(outcome.result, Refusal) for outcome in decision.response)
    return EMPTY_IMAGE.apply_all(decision.records)


def test_a_rule_is_kept_once_however_often_it_is_created():
    image = created(READS, READS)
    assert list(image.access.acls) == [
        Acl(
            ResourceType.TOPIC,
            "orders",
            PatternType.LITERAL,
            Principal("User", "alice"),
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
    ]
    again = create_acls(image, [READS])
    assert again.records == ()
    assert again.response[0].result in image.access.acls


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resource_type": 0}, "resource type"),
        ({"resource_type": 1}, "a rule has no resource type ANY"),
        ({"resource_type": 99}, "no resource type 99"),
        ({"name": ""}, "1 to 1024 characters"),
        ({"name": None}, "1 to 1024 characters"),
        ({"name": "x" * 1025}, "1 to 1024 characters, not 1025"),
        ({"resource_type": 4}, "'kafka-cluster', not 'orders'"),
        ({"pattern": 1}, "pattern type ANY"),
        ({"pattern": 2}, "pattern type MATCH"),
        ({"pattern": 7}, "no pattern type 7"),
        ({"principal": "alice"}, "is no principal"),
        ({"principal": ""}, "is no principal"),
        ({"principal": "User:" + "x" * 1024}, "up to 1024"),
        ({"host": "somewhere.example"}, "is no address"),
        ({"host": ""}, "is no address"),
        ({"operation": 1}, "operation ANY"),
        ({"operation": 0}, "no operation 0"),
        ({"permission": 1}, "permission ANY"),
        ({"permission": 0}, "no permission 0"),
    ],
)
def test_what_is_no_rule_is_refused_and_the_others_are_created(change, words):
    decision = create_acls(EMPTY_IMAGE, [replace(READS, **change), READS])
    code, message = refused(decision.response[0])
    assert code is ErrorCode.INVALID_REQUEST
    assert words in message
    assert len(decision.records) == 1


def test_an_address_is_kept_in_its_shortest_form():
    image = created(replace(READS, host="0:0:0:0:0:0:0:1"))
    assert [acl.host for acl in image.access.acls] == ["::1"]


def test_there_are_not_more_rules_than_allowed(monkeypatch):
    monkeypatch.setattr(acl_commands, "ACLS_MAX", 2)
    decision = create_acls(EMPTY_IMAGE, [replace(READS, name=name) for name in "abbc"])
    assert len(decision.records) == 2
    assert refused(decision.response[3])[0] is ErrorCode.POLICY_VIOLATION


def test_filters_name_what_they_remove_and_several_may_name_the_same():
    image = created(*(replace(READS, name=name, pattern=pattern) for name in ("or", "orders") for pattern in (3, 4)))
    by_match = replace(EVERYTHING, resource_type=2, name="orders", pattern=2)
    decision = delete_acls(image, [by_match, READS, replace(READS, principal="User:bob"), replace(READS, operation=0)])
    named = [outcome.result for outcome in decision.response[:3]]
    assert [(acl.name, acl.pattern.name) for acl in named[0]] == [
        ("or", "PREFIXED"),
        ("orders", "LITERAL"),
        ("orders", "PREFIXED"),
    ]
    assert [acl.name for acl in named[1]] == ["orders"]
    assert named[2] == []
    assert refused(decision.response[3])[0] is ErrorCode.INVALID_REQUEST
    left = image.apply_all(decision.records).access.acls
    assert [(acl.name, acl.pattern.name) for acl in left] == [("or", "LITERAL")]


def test_a_request_does_not_look_at_all_rules_without_end(monkeypatch):
    monkeypatch.setattr(acl_commands, "LOOKED_AT_MAX", 3)
    image = created(READS, replace(READS, name="other"))
    decision = delete_acls(image, [EVERYTHING, READS, EVERYTHING])
    assert [isinstance(outcome.result, Refusal) for outcome in decision.response] == [False, False, True]


def test_a_look_at_all_rules_shows_them_in_order():
    image = created(*(replace(READS, name=name) for name in "cab"))
    assert [acl.name for acl in find_acls(image.access.acls, parse_filter(EVERYTHING))] == ["a", "b", "c"]
