"""`headrace acls` against a living node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import call_here
from tests.clients.nodes import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.clients.commands import Ran

    Call = Callable[..., Ran]

pytest_plugins = ["tests.clients.node_fixtures"]

FAILED, USAGE, NOT_FOUND = 1, 2, 3
ALICE = ("--principal", "User:alice")


@pytest.mark.parametrize(
    "arguments", [("add", *ALICE, "--topic", "t", "--allow", "read"), ("list",), ("remove", *ALICE)]
)
def test_without_an_authoriser_there_are_no_rules(node: NodeProcess, arguments: tuple[str, ...]) -> None:
    ran = call_here(node.bootstrap_servers, "acls", *arguments)
    assert ran.code == FAILED
    assert "authorizer.class.name" in ran.talk


def test_not_everything_is_removed_by_accident(node: NodeProcess) -> None:
    ran = call_here(node.bootstrap_servers, "acls", "remove", "--yes")
    assert ran.code == USAGE
    assert "say which" in ran.talk


@pytest.fixture(scope="module")
def authorising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """Whoever does not log in may do everything: what is looked at here are rules, not who they are about."""
    configs = {"authorizer.class.name": "headrace", "super.users": "User:ANONYMOUS"}
    node = NodeProcess(tmp_path_factory.mktemp("authorising"), configs).start()
    yield lambda *arguments: call_here(node.bootstrap_servers, "acls", *arguments)
    node.stop()


def listed(headrace: Call, *options: str) -> list[tuple[str, ...]]:
    ran = headrace("list", "--format", "json", *options)
    assert ran.code == 0, ran.talk
    return [tuple(rule.values()) for rule in json.loads(ran.out)]


def test_rules_are_added_listed_and_removed(authorising: Call) -> None:
    added = authorising("add", *ALICE, "--allow", "read,write", "--topic", "orders")
    assert (added.code, added.talk.splitlines()[-1]) == (0, "added 2 rules")
    authorising("add", *ALICE, "--allow", "all", "--topic", "ord", "--prefixed", "--host", "192.0.2.7")
    authorising("add", "--principal", "User:*", "--deny", "delete", "--topic", "*")
    authorising("add", "--principal", "User:bob", "--allow", "idempotent-write", "--cluster")
    read = ("User:alice", "allow", "read", "topic", "orders", "literal", "*")
    write = ("User:alice", "allow", "write", "topic", "orders", "literal", "*")
    prefixed = ("User:alice", "allow", "all", "topic", "ord", "prefixed", "192.0.2.7")
    denied = ("User:*", "deny", "delete", "topic", "*", "literal", "*")
    cluster = ("User:bob", "allow", "idempotent-write", "cluster", "kafka-cluster", "literal", "*")
    assert set(listed(authorising)) == {read, write, prefixed, denied, cluster}
    assert set(listed(authorising, "--topic", "orders")) == {read, write, prefixed, denied}
    assert listed(authorising, "--topic", "other") == [denied]
    assert listed(authorising, "--topic", "ord", "--prefixed") == [prefixed]
    assert listed(authorising, "--cluster") == [cluster]
    assert listed(authorising, "--deny", "delete") == [denied]
    assert set(listed(authorising, *ALICE)) == {read, write, prefixed}
    table = authorising("list", "--cluster").out.splitlines()
    assert table[0].split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]
    assert table[1].split() == list(cluster)

    shown = authorising("remove", *ALICE, "--dry-run")
    assert "allow User:alice from 192.0.2.7: all on topics that begin with ord" in shown.talk
    assert "nothing was" in shown.talk
    assert set(listed(authorising, *ALICE)) == {read, write, prefixed}
    removed = authorising("remove", *ALICE, "--topic", "orders", "--allow", "read")
    assert removed.talk.splitlines() == ["allow User:alice: read on topic orders", "removed 1 rule"]
    assert authorising("remove", *ALICE).talk.splitlines()[-1] == "removed 2 rules"
    assert set(listed(authorising)) == {denied, cluster}
    gone = authorising("remove", *ALICE)
    assert (gone.code, "there is no such rule" in gone.talk) == (NOT_FOUND, True)


def test_what_the_controller_refuses_is_told(authorising: Call) -> None:
    ran = authorising("add", *ALICE, "--allow", "read", "--topic", "t", "--host", "nowhere")
    assert ran.code == FAILED
    assert "nowhere" in ran.talk
