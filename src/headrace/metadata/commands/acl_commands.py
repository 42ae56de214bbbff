"""Create and delete access rules, and look at them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.access.identity import parse_principal
from headrace.access.operations import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import ANY_HOST, Acl
from headrace.access.rules.filters import AclFilter
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.image.records import AclChanged
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import IntEnum

    from headrace.access.identity import Principal
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.maps import Map

NumberT = TypeVar("NumberT", bound="IntEnum")

ACLS_MAX: Final = 20_000  # each is in every node's memory, some 500 bytes of it
IN_REQUEST_MAX: Final = 2000  # rules, or filters, in one request: to read as many takes the controller 20 ms
LOOKED_AT_MAX: Final = 10 * ACLS_MAX  # rules, for all filters of a request: a tenth of a second
NAME_MAX: Final = 1024  # characters of a resource's name, or of a principal

_IN_RULES: Final[Mapping[str, frozenset[IntEnum]]] = {
    "resource type": frozenset({it for it in ResourceType if it > ResourceType.ANY}),
    "pattern type": frozenset({PatternType.LITERAL, PatternType.PREFIXED}),
    "operation": frozenset({it for it in Operation if it > Operation.ANY}),
    "permission": frozenset({Permission.ALLOW, Permission.DENY}),
}


@dataclass(frozen=True, slots=True)
class AclText:
    """A rule, or a filter for rules, as a request has it: numbers and texts that nobody has looked at."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


def parse_acl(text: AclText) -> Acl:
    """Raises Refusal INVALID_REQUEST if it is no rule."""
    kind = _in_rule("resource type", ResourceType, text.resource_type)
    name, host = text.name or "", text.host or ""
    if not 0 < len(name) <= NAME_MAX:
        raise _invalid(f"the name of a resource has 1 to {NAME_MAX} characters, not {len(name)}")
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"the only resource of the kind cluster is {CLUSTER_NAME!r}, not {name[:80]!r}")
    return Acl(
        kind,
        name,
        _in_rule("pattern type", PatternType, text.pattern),
        _principal(text.principal or ""),
        _host(host),
        _in_rule("operation", Operation, text.operation),
        _in_rule("permission", Permission, text.permission),
    )


def parse_filter(text: AclText) -> AclFilter:
    """Raises Refusal INVALID_REQUEST if it means nothing that there could be."""
    return AclFilter(
        _known("resource type", ResourceType, text.resource_type),
        text.name,
        _known("pattern type", PatternType, text.pattern),
        None if text.principal is None else _principal(text.principal),
        text.host,
        _known("operation", Operation, text.operation),
        _known("permission", Permission, text.permission),
    )


def create_acls(image: ClusterImage, texts: Sequence[AclText]) -> Decision[list[Outcome[Acl]]]:
    """A rule that is there already is created again, which changes nothing."""
    _check_count(texts)
    known = image.access.acls
    added: dict[Acl, None] = {}
    outcomes: list[Outcome[Acl]] = []
    for text in texts:
        try:
            acl = parse_acl(text)
            if acl not in known and acl not in added:
                if len(known) + len(added) >= ACLS_MAX:
                    raise Refusal(ErrorCode.POLICY_VIOLATION, f"there are {ACLS_MAX} access rules; no more are kept")
                added[acl] = None
            outcomes.append(Outcome(acl.name, acl))
        except Refusal as refusal:
            outcomes.append(Outcome(text.name or "", refusal))
    return Decision(tuple(AclChanged(acl, exists=True) for acl in added), outcomes)


def delete_acls(image: ClusterImage, texts: Sequence[AclText]) -> Decision[list[Outcome[list[Acl]]]]:
    """What each filter matches goes, and is named. What several match is named by each of them."""
    _check_count(texts)
    acls, looked_at = image.access.acls, 0
    outcomes: list[Outcome[list[Acl]]] = []
    gone: dict[Acl, None] = {}
    for text in texts:
        try:
            meant = parse_filter(text)
            looked_at += 1 if meant.only is not None else len(acls)
            if looked_at > LOOKED_AT_MAX:
                raise Refusal(ErrorCode.POLICY_VIOLATION, "too many filters that leave something open; send fewer")
            found = find_acls(acls, meant)
        except Refusal as refusal:
            outcomes.append(Outcome("", refusal))
            continue
        gone |= dict.fromkeys(found)
        outcomes.append(Outcome("", found))
    return Decision(tuple(AclChanged(acl, exists=False) for acl in gone), outcomes)


def _check_count(texts: Sequence[AclText]) -> None:
    if len(texts) > IN_REQUEST_MAX:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{len(texts)} access rules in one request; send {IN_REQUEST_MAX} at a time",
        )


def find_acls(acls: Map[Acl, None], meant: AclFilter) -> list[Acl]:
    only = meant.only
    if only is not None:
        return [only] if only in acls else []
    return sorted(acl for acl in acls if meant.matches(acl))


def _in_rule(what: str, kind: type[NumberT], number: int) -> NumberT:
    found = _known(what, kind, number)
    allowed = _IN_RULES[what]
    if found not in allowed:
        words = ", ".join(f"{it.name} ({it.value})" for it in sorted(allowed))
        raise _invalid(f"a rule has no {what} {found.name}; it has one of {words}")
    return found


def _known(what: str, kind: type[NumberT], number: int) -> NumberT:
    try:
        found = kind(number)
    except ValueError:
        found = None
    if found is None or not found.value:
        raise _invalid(f"there is no {what} {number}; known are {', '.join(f'{it.name} ({it.value})' for it in kind)}")
    return found


def _principal(text: str) -> Principal:
    if len(text) > NAME_MAX:
        raise _invalid(f"a principal has up to {NAME_MAX} characters, not {len(text)}")
    try:
        return parse_principal(text)
    except ValueError as error:
        raise _invalid(str(error)) from None


def _host(text: str) -> str:
    """As connections are known by: an address in its shortest form."""
    if text == ANY_HOST:
        return text
    try:
        return str(ip_address(text))
    except ValueError:
        raise _invalid(
            f"{text[:80]!r} is no address; a rule is for one address, such as 10.0.0.7, or for {ANY_HOST}"
        ) from None


def _invalid(problem: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, problem)
