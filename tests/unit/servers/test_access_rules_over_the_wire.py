"""CreateAcls, DescribeAcls and DeleteAcls, as clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.metadata.commands import acl_commands
from headrace.model.errors import ErrorCode
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.messages.describe_acls import DescribeAclsRequest
from tests.unit.servers.living_server import living_server
from tests.unit.servers.ruled_server import ALLOW, ALTER, CLUSTER, DESCRIBE, GROUP, READ, TOPIC, rule, ruled_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.servers.living_server import Client
    from tests.unit.servers.ruled_server import RuledServer

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
VERSIONS = (1, 2, 3)
C = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RuledServer]:
    async with ruled_server(tmp_path) as running:
        yield running
        assert not running.node.failed.done()


@pytest.fixture
async def root(server: RuledServer) -> Client:
    return await server.connect("root")


def reads(
    name: str, pattern: int = LITERAL, who: str = "User:alice", host: str = "*", kind: int = TOPIC
) -> AclCreation:
    return AclCreation(kind, name, pattern, who, host, READ, ALLOW)


def meant(name: str | None = None, pattern: int = ANY, who: str | None = None, kind: int = ANY) -> tuple[Any, ...]:
    return kind, name, pattern, who, None, ANY, ANY


def shown(answer: Any) -> list[tuple[int, str, int, list[tuple[str, str, int, int]]]]:
    assert answer.error_code == 0, answer
    return [
        (
            it.resource_type,
            it.resource_name,
            it.pattern_type,
            [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in it.acls],
        )
        for it in answer.resources
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_rules_are_created_shown_by_what_they_are_for_and_deleted(root, version):
    created = [
        reads("b"),
        reads("a"),
        reads("a", who="User:bob"),
        reads("a", PREFIXED),
        reads("a"),
        reads("g", kind=GROUP),
    ]
    answer = await root.ask(CreateAclsRequest(created), version)
    assert [(it.error_code, it.error_message) for it in answer.results] == [(0, None)] * len(created)
    alice, bob = ("User:alice", "*", READ, ALLOW), ("User:bob", "*", READ, ALLOW)
    everything = await root.ask(DescribeAclsRequest(*meant()), version)
    assert shown(everything) == [
        (TOPIC, "a", LITERAL, [alice, bob]),
        (TOPIC, "a", PREFIXED, [alice]),
        (TOPIC, "b", LITERAL, [alice]),
        (GROUP, "g", LITERAL, [alice]),
    ]
    of_abc = await root.ask(DescribeAclsRequest(*meant("abc", MATCH, kind=TOPIC)), version)
    assert shown(of_abc) == [(TOPIC, "a", PREFIXED, [alice])]
    filters = [DeleteAclsFilter(*meant("a", LITERAL, "User:bob")), DeleteAclsFilter(*meant("nothing"))]
    answer = await root.ask(DeleteAclsRequest(filters), version)
    assert [(it.error_code, [acl.principal for acl in it.matching_acls]) for it in answer.filter_results] == [
        (0, ["User:bob"]),
        (0, []),
    ]
    assert shown(await root.ask(DescribeAclsRequest(*meant("a", LITERAL)), version)) == [(TOPIC, "a", LITERAL, [alice])]


async def test_what_is_no_rule_is_refused_beside_those_that_are(root):
    wrong = [
        reads("a", who="alice"),
        reads("a", host="example.org"),
        reads("", kind=TOPIC),
        reads("a", MATCH),
        reads("a"),
    ]
    answer = await root.ask(CreateAclsRequest(wrong), 3)
    assert [it.error_code for it in answer.results] == [ErrorCode.INVALID_REQUEST] * 4 + [0]
    assert "User:alice" in answer.results[0].error_message
    assert "no address" in answer.results[1].error_message
    answer = await root.ask(DeleteAclsRequest([DeleteAclsFilter(99), DeleteAclsFilter(*meant("a"))]), 3)
    assert [(it.error_code, len(it.matching_acls)) for it in answer.filter_results] == [
        (ErrorCode.INVALID_REQUEST, 0),
        (0, 1),
    ]
    assert (await root.ask(DescribeAclsRequest(0), 3)).error_code == ErrorCode.INVALID_REQUEST


async def test_there_is_a_limit_to_rules_and_to_those_of_a_request(root, monkeypatch):
    monkeypatch.setattr(acl_commands, "IN_REQUEST_MAX", 3)
    monkeypatch.setattr(acl_commands, "ACLS_MAX", 4)
    many = ErrorCode.POLICY_VIOLATION
    answer = await root.ask(CreateAclsRequest([reads(f"{number}") for number in range(4)]), 3)
    assert [it.error_code for it in answer.results] == [many] * 4
    assert "send 3 at a time" in answer.results[0].error_message
    answer = await root.ask(DeleteAclsRequest([DeleteAclsFilter(*meant())] * 4), 3)
    assert [it.error_code for it in answer.filter_results] == [many] * 4
    for first in (0, 3):
        answer = await root.ask(CreateAclsRequest([reads(f"{number}") for number in range(first, first + 3)]), 3)
    assert [it.error_code for it in answer.results] == [0, many, many]


async def test_who_may_look_at_rules_may_not_change_them(server):
    alice = await server.connect("alice")
    creating, deleting = CreateAclsRequest([reads("a")] * 2), DeleteAclsRequest([DeleteAclsFilter(*meant())])
    assert (await alice.ask(DescribeAclsRequest(*meant()), 3)).error_code == C
    await server.allow(rule("alice", DESCRIBE, CLUSTER))
    assert len(shown(await alice.ask(DescribeAclsRequest(*meant()), 3))) == 1
    assert [it.error_code for it in (await alice.ask(creating, 3)).results] == [C, C]
    assert [it.error_code for it in (await alice.ask(deleting, 3)).filter_results] == [C]
    await server.allow(rule("alice", ALTER, CLUSTER))
    assert [it.error_code for it in (await alice.ask(creating, 3)).results] == [0, 0]
    assert [len(it.matching_acls) for it in (await alice.ask(deleting, 3)).filter_results] == [3]
    assert (await alice.ask(DescribeAclsRequest(*meant()), 3)).error_code == C  # hers were among them


@pytest.mark.parametrize("version", VERSIONS)
async def test_where_rules_are_not_obeyed_none_is_kept(tmp_path, version):
    async with living_server(tmp_path) as living:
        client = await living.connect()
        disabled = ErrorCode.SECURITY_DISABLED
        assert (await client.ask(DescribeAclsRequest(*meant()), version)).error_code == disabled
        created = await client.ask(CreateAclsRequest([reads("a")]), version)
        deleted = await client.ask(DeleteAclsRequest([DeleteAclsFilter(*meant())]), version)
        assert [it.error_code for it in (*created.results, *deleted.filter_results)] == [disabled] * 2
        assert "authorizer.class.name" in created.results[0].error_message
        assert not living.node.image.access.acls
