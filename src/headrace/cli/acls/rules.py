"""Access rules between options and values: who, what, on which resource."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.access.identity import Principal, parse_principal
from headrace.access.operations import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import ANY_HOST, Acl
from headrace.access.rules.filters import AclFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Right = tuple[Permission, Operation]
    NamedResource = tuple[ResourceType, str]

KINDS: Final = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
}
"""Each option that names resources, as a keyword."""

_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: Final = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE),
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE),
        *_CONFIGS,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
}
"""What can be done to each kind. A rule about anything else would be kept and never asked for."""


def word(value: Operation | ResourceType | PatternType | Permission) -> str:
    """As it stands on a command line: `describe-configs`."""
    return value.name.lower().replace("_", "-")


def resources_of(given: dict[str, Any]) -> list[NamedResource]:
    named = [(kind, name) for option, kind in KINDS.items() for name in given[option]]
    # There is one, whatever somebody calls it.
    return named if given["cluster"] is None else [*named, (ResourceType.CLUSTER, CLUSTER_NAME)]


def principals_of(given: dict[str, Any]) -> list[Principal]:
    try:
        return [parse_principal(text) for text in given["principals"]]
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--principal") from None


def rights_of(given: dict[str, Any]) -> list[Right]:
    """Raises BadParameter for what is no operation."""
    rights = {
        (permission, _operation(name.strip(), word(permission))): None
        for permission in (Permission.ALLOW, Permission.DENY)
        for text in given[word(permission)]
        for name in text.split(",")
    }
    return list(rights)


def _operation(name: str, option: str) -> Operation:
    known = {word(it): it for it in (Operation.ALL, *dict.fromkeys(it for some in OPERATIONS.values() for it in some))}
    operation = known.get(name.lower().replace("_", "-"))
    if operation is None:
        raise click.BadParameter(f"{name!r} is no operation; expected {', '.join(known)}", param_hint=f"--{option}")
    return operation


def _refuse_unless_it_fits(kind: ResourceType, permission: Permission, operation: Operation) -> None:
    if operation is not Operation.ALL and operation not in OPERATIONS[kind]:
        raise click.BadParameter(
            f"{word(operation)} is nothing that is done to a {word(kind)}, which knows "
            f"{', '.join(map(word, OPERATIONS[kind]))} and all",
            param_hint=f"--{word(permission)}",
        )


def pattern_of(given: dict[str, Any], resources: list[NamedResource], otherwise: PatternType) -> PatternType:
    if not given["prefixed"]:
        return otherwise
    if any(kind is ResourceType.CLUSTER for kind, _ in resources):
        raise click.UsageError("--prefixed is about names, and the cluster has none: leave out one of them")
    return PatternType.PREFIXED


def acls_of(given: dict[str, Any]) -> list[Acl]:
    """All combinations of what the options of `add` name."""
    resources = resources_of(given)
    rights, principals = rights_of(given), principals_of(given)
    if not resources:
        raise click.UsageError("say on what: --topic, --group, --transactional-id or --cluster")
    if not rights:
        raise click.UsageError("say what is allowed or denied: --allow read,write or --deny all, for example")
    for (kind, _), (permission, operation) in product(resources, rights):
        _refuse_unless_it_fits(kind, permission, operation)
    pattern = pattern_of(given, resources, PatternType.LITERAL)
    hosts = given["hosts"] or (ANY_HOST,)
    return [
        Acl(kind, name, pattern, principal, host, operation, permission)
        for (kind, name), principal, host, (permission, operation) in product(resources, principals, hosts, rights)
    ]


def filters_of(given: dict[str, Any], otherwise: PatternType) -> list[AclFilter]:
    """What the options of `list` and `remove` leave open matches anything. `otherwise` is how a name is meant."""
    resources = resources_of(given)
    pattern = pattern_of(given, resources, otherwise)
    return list(_filters(given, resources, pattern))


def _filters(given: dict[str, Any], resources: list[NamedResource], pattern: PatternType) -> Iterator[AclFilter]:
    some_resources: list[tuple[ResourceType, str | None]] = [*resources] or [(ResourceType.ANY, None)]
    if not resources and pattern is not PatternType.PREFIXED:
        pattern = PatternType.ANY
    principals: Sequence[Principal | None] = principals_of(given) or [None]
    hosts = given["hosts"] or (None,)
    rights = rights_of(given) or [(Permission.ANY, Operation.ANY)]
    for (kind, name), principal, host, (permission, operation) in product(some_resources, principals, hosts, rights):
        yield AclFilter(kind, name, pattern, principal, host, operation, permission)


def row(acl: Acl) -> tuple[str, ...]:
    """For a table, under `COLUMNS`."""
    return (
        str(acl.principal),
        word(acl.permission),
        word(acl.operation),
        word(acl.resource_type),
        acl.name,
        word(acl.pattern),
        acl.host,
    )


COLUMNS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")
