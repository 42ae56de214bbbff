"""Options of `headrace acls` become rules and filters; what no rule could mean is refused before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest

from headrace.access.identity import Principal
from headrace.access.operations import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import Acl
from headrace.access.rules.filters import AclFilter
from headrace.cli.acls.command import add, rule_options
from headrace.cli.acls.rules import OPERATIONS, acls_of, filters_of, word
from headrace.metadata.commands.acl_commands import AclText, parse_acl

if TYPE_CHECKING:
    from collections.abc import Callable

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


def options(*arguments: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    @click.command()
    @click.option("--principal", "principals", multiple=True)
    @rule_options
    def take(**given: Any) -> None:
        found.append(given)

    take.main(list(arguments), standalone_mode=False)
    return found[0]


def rule(
    kind: ResourceType, name: str, operation: Operation, *, pattern: PatternType = PatternType.LITERAL, host: str = "*"
) -> Acl:
    return Acl(kind, name, pattern, ALICE, host, operation, Permission.ALLOW)


def test_every_combination_is_a_rule() -> None:
    given = options(
        *("--principal", "User:alice", "--principal", "User:bob", "--topic", "a", "--topic", "b"),
        *("--allow", "read,write", "--deny", "delete"),
    )
    acls = acls_of(given)
    assert len(set(acls)) == len(acls) == 2 * 2 * 3
    assert {acl.principal for acl in acls} == {ALICE, BOB}
    assert {(acl.permission, acl.operation) for acl in acls} == {
        (Permission.ALLOW, Operation.READ),
        (Permission.ALLOW, Operation.WRITE),
        (Permission.DENY, Operation.DELETE),
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--topic", "t", "--allow", "READ"), rule(ResourceType.TOPIC, "t", Operation.READ)),
        (("--topic", "*", "--allow", "all"), rule(ResourceType.TOPIC, "*", Operation.ALL)),
        (("--allow", "create", "--cluster"), rule(ResourceType.CLUSTER, CLUSTER_NAME, Operation.CREATE)),
        (
            ("--cluster", "mine", "--allow", "idempotent_write"),
            rule(ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE),
        ),
        (
            ("--group", "g-", "--prefixed", "--allow", "read", "--host", "192.0.2.7"),
            rule(ResourceType.GROUP, "g-", Operation.READ, pattern=PatternType.PREFIXED, host="192.0.2.7"),
        ),
        (
            ("--transactional-id", "x", "--allow", "Write"),
            rule(ResourceType.TRANSACTIONAL_ID, "x", Operation.WRITE),
        ),
    ],
)
def test_a_rule_of_options_is_one_that_the_controller_takes(arguments: tuple[str, ...], expected: Acl) -> None:
    (acl,) = acls_of(options("--principal", "User:alice", *arguments))
    assert acl == expected
    assert parse_acl(AclText(*acl[:3], str(acl.principal), *acl[4:])) == acl


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--allow", "read"), "say on what: --topic"),
        (("--topic", "t"), "say what is allowed or denied"),
        (("--topic", "t", "--allow", "reed"), "'reed' is no operation; expected all, read, write"),
        (("--topic", "t", "--allow", ""), "'' is no operation"),
        (("--group", "g", "--allow", "write"), "write is nothing that is done to a group, which knows read, delete"),
        (("--topic", "t", "--group", "g", "--allow", "write"), "write is nothing that is done to a group, which"),
        (("--cluster", "--prefixed", "--allow", "create"), "--prefixed is about names"),
    ],
)
def test_what_no_rule_could_mean_is_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        acls_of(options("--principal", "User:alice", *arguments))


def test_a_principal_has_a_kind() -> None:
    with pytest.raises(click.BadParameter, match="'alice' is no principal; expected"):
        acls_of(options("--principal", "alice", "--topic", "t", "--allow", "read"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), AclFilter()),
        (("--principal", "User:alice"), AclFilter(principal=ALICE)),
        (("--topic", "t"), AclFilter(ResourceType.TOPIC, "t", PatternType.LITERAL)),
        (("--topic", "t", "--prefixed"), AclFilter(ResourceType.TOPIC, "t", PatternType.PREFIXED)),
        (("--prefixed",), AclFilter(pattern=PatternType.PREFIXED)),
        (("--cluster",), AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)),
        (("--deny", "cluster-action"), AclFilter(operation=Operation.CLUSTER_ACTION, permission=Permission.DENY)),
        (("--host", "192.0.2.7"), AclFilter(host="192.0.2.7")),
    ],
)
def test_what_is_left_out_of_a_filter_fits_everything(arguments: tuple[str, ...], expected: AclFilter) -> None:
    assert filters_of(options(*arguments), PatternType.LITERAL) == [expected]


def test_every_operation_of_a_resource_can_be_named() -> None:
    flags: dict[ResourceType, tuple[str, ...]] = {
        ResourceType.TOPIC: ("--topic", "x"),
        ResourceType.GROUP: ("--group", "x"),
        ResourceType.CLUSTER: ("--cluster",),
        ResourceType.TRANSACTIONAL_ID: ("--transactional-id", "x"),
    }
    for kind, operations in OPERATIONS.items():
        names = ",".join(map(word, operations))
        acls = acls_of(options("--principal", "User:alice", *flags[kind], "--allow", names))
        assert [acl.operation for acl in acls] == list(operations)


def test_a_rule_is_about_somebody() -> None:
    command: Callable[..., object] = add.main
    with pytest.raises(click.MissingParameter, match="principals"):
        command(["--topic", "t", "--allow", "read"], standalone_mode=False)
