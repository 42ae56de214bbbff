"""`headrace acls` against a living node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import call_here

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

FAILED, USAGE = 1, 2
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
