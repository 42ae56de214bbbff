"""`headrace quotas` against a living node: what is set is listed, found by its parts, and removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import call_here
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.clients.commands import Ran
    from tests.clients.nodes import NodeProcess

    Call = Callable[..., Ran]

pytest_plugins = ["tests.clients.node_fixtures"]

NOT_FOUND, USAGE = 3, 2


@pytest.fixture
def headrace(node: NodeProcess) -> Call:
    return lambda *arguments: call_here(node.bootstrap_servers, *arguments)


@pytest.fixture
def user(headrace: Call) -> Iterator[str]:
    """A name that nobody else uses, whose quotas are removed at the end: other tests share the node."""
    name = new_name("user")
    yield name
    for options in (("--user", name), ("--user", name, "--client-id", "app")):
        headrace("quotas", "remove", *options)


def listed(headrace: Call, *options: str) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    ran = headrace("quotas", "list", "--format", "json", *options)
    assert ran.code == 0, ran.talk
    return [(found["entity"], found["quotas"]) for found in json.loads(ran.out)]


def test_what_is_set_is_listed_and_removed(headrace: Call, user: str) -> None:
    ran = headrace("quotas", "set", "--user", user, "--produce-rate", "10MB/s", "--request-percentage", "12.5")
    assert (ran.code, ran.talk.strip()) == (0, f"set 2 quotas of user '{user}'")
    headrace("quotas", "set", "--user", user, "--client-id", "app", "--fetch-rate", "512KiB/s", "--mutation-rate", "3")
    headrace("quotas", "set", "--user", user, "--fetch-rate", "7")
    own = ({"user": user}, {"producer_byte_rate": 1e7, "request_percentage": 12.5, "consumer_byte_rate": 7.0})
    both = (
        {"user": user, "client-id": "app"},
        {"consumer_byte_rate": 524288.0, "controller_mutation_rate": 3.0},
    )
    assert listed(headrace, "--user", user) == [both, own]
    assert listed(headrace, "--user", user, "--client-id", "app") == [both]
    table = headrace("quotas", "list", "--user", user).out
    assert [line.split() for line in table.splitlines()][:2] == [
        ["USER", "CLIENT", "ID", "IP", "QUOTA", "VALUE"],
        [user, "app", "-", "consumer_byte_rate", "524288"],
    ]
    assert headrace("quotas", "remove", "--user", user, "--fetch-rate", "--produce-rate").code == 0
    assert listed(headrace, "--user", user) == [both, ({"user": user}, {"request_percentage": 12.5})]
    assert headrace("quotas", "remove", "--user", user).code == 0
    assert listed(headrace, "--user", user) == [both]
    assert headrace("quotas", "remove", "--user", user).code == NOT_FOUND


def test_defaults_and_addresses_have_quotas(headrace: Call) -> None:
    address = "2001:DB8::7"
    try:
        assert headrace("quotas", "set", "--ip", address, "--connection-rate", "5").code == 0
        assert headrace("quotas", "set", "--client-id-default", "--user-default", "--fetch-rate", "1GB/s").code == 0
        assert ({"ip": "2001:db8::7"}, {"connection_creation_rate": 5.0}) in listed(headrace)
        assert listed(headrace, "--client-id-default") == [
            ({"client-id": None, "user": None}, {"consumer_byte_rate": 1e9})
        ]
    finally:
        removed = [
            headrace("quotas", "remove", "--ip", address).code,
            headrace("quotas", "remove", "--client-id-default", "--user-default").code,
        ]
    assert removed == [0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("set", "--produce-rate", "1MB/s"), "give --user"),
        (("set", "--user", "alice"), "nothing to set"),
        (("set", "--user", "alice", "--user-default", "--fetch-rate", "1"), "not both"),
        (("set", "--user", "alice", "--produce-rate", "fast"), "'fast' is no rate"),
        (("set", "--user", "alice", "--mutation-rate", "0"), "0"),
        (("set", "--ip", "nowhere", "--connection-rate", "1"), "no IP address"),
        (("set", "--ip", "192.0.2.7", "--user", "alice", "--connection-rate", "1"), "does not go together"),
    ],
)
def test_wrong_usage_says_what_is_expected(headrace: Call, options: tuple[str, ...], words: str) -> None:
    ran = headrace("quotas", *options)
    assert ran.code == USAGE
    assert words in ran.talk


def test_what_an_entity_cannot_have_is_refused_by_the_node(headrace: Call) -> None:
    ran = headrace("quotas", "set", "--ip", "192.0.2.7", "--fetch-rate", "1")
    assert ran.code == 1
    assert "'consumer_byte_rate' cannot be set for ip '192.0.2.7'" in ran.talk
