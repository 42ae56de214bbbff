"""All rules, arranged so that a question looks only at those that may count for it.

A rule is found by the kind and the name of its resource, its principal and its host. For prefixes the name that is
asked about is cut to each length that some prefix has: so rules for other names, principals and hosts cost nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from headrace.access.identity import EVERYBODY
from headrace.access.operations import Operation, PatternType, Permission
from headrace.access.rules.acl import ANY_HOST, ANY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.access.identity import Identity, Principal
    from headrace.access.operations import ResourceType
    from headrace.access.rules.acl import Acl

    Pattern = tuple[ResourceType, PatternType, str]

ALLOWED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
"""Rights that come with others: who may read a topic may also see that it is there. A rule that denies denies just what
it names, or all."""

UNLIKELY_NAME: Final = "hardcode"  # Kafka's: asked about to see whether rules let somebody use any name at all


class CompiledRules:
    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._rules: dict[tuple[Pattern, Principal, str], dict[Acl, None]] = {}
        """By what they are for, whom, and from which host: a few each."""
        self._patterns: Counter[Pattern] = Counter()
        """How many rules each has."""
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._of_principals: dict[tuple[ResourceType, Principal], dict[Acl, None]] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        """It must be new."""
        pattern = (acl.resource_type, acl.pattern, acl.name)
        self._rules.setdefault((pattern, acl.principal, acl.host), {})[acl] = None
        self._of_principals.setdefault((acl.resource_type, acl.principal), {})[acl] = None
        self._patterns[pattern] += 1
        if acl.pattern is PatternType.PREFIXED and self._patterns[pattern] == 1:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1

    def remove(self, acl: Acl) -> None:
        """It must be there."""
        pattern = (acl.resource_type, acl.pattern, acl.name)
        rules = self._rules[pattern, acl.principal, acl.host]
        del rules[acl]
        if not rules:
            del self._rules[pattern, acl.principal, acl.host]
        of_principal = self._of_principals[acl.resource_type, acl.principal]
        del of_principal[acl]
        if not of_principal:
            del self._of_principals[acl.resource_type, acl.principal]
        self._patterns[pattern] -= 1
        if not self._patterns[pattern]:
            del self._patterns[pattern]
            if acl.pattern is PatternType.PREFIXED:
                self._forget_length(acl.resource_type, len(acl.name))

    def _forget_length(self, kind: ResourceType, length: int) -> None:
        lengths = self._prefix_lengths[kind]
        lengths[length] -= 1
        if not lengths[length]:
            del lengths[length]

    def allows(
        self, identity: Identity, operation: Operation, kind: ResourceType, name: str, *, if_no_rule: bool = False
    ) -> bool:
        """Whether there is a rule that allows it, and none that denies it. `if_no_rule` is the verdict on what has no
        rule of anybody (`allow.everyone.if.no.acl.found`)."""
        allowed_by = ALLOWED_BY.get(operation, (operation, Operation.ALL))
        is_allowed = False
        for acl in self._about(identity, kind, name):
            if acl.permission is Permission.DENY:
                if acl.operation in {operation, Operation.ALL}:
                    return False
            elif acl.operation in allowed_by:
                is_allowed = True
        return is_allowed or (if_no_rule and not self._has_rules(kind, name))

    def allows_on_some(self, identity: Identity, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any name of this kind for which it is allowed, as Kafka sees it (KIP-679): what a rule
        implies does not count, and a prefix is not compared with longer ones that are denied."""
        if self.allows(identity, operation, kind, UNLIKELY_NAME):
            return True
        rules = [acl for acl in self._of(identity, kind) if acl.operation in {operation, Operation.ALL}]
        denied = {(acl.pattern, acl.name) for acl in rules if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, ANY_NAME) in denied:
            return False
        for acl in rules:
            if acl.permission is Permission.DENY:
                continue
            if (acl.pattern, acl.name) == (PatternType.LITERAL, ANY_NAME):
                return True
            is_denied = acl.pattern is PatternType.LITERAL and (acl.pattern, acl.name) in denied
            prefixes = (acl.name[:length] for length in range(1, len(acl.name) + 1))
            if not is_denied and not any((PatternType.PREFIXED, prefix) in denied for prefix in prefixes):
                return True
        return False

    def _about(self, identity: Identity, kind: ResourceType, name: str) -> Iterator[Acl]:
        """The rules for this resource that are about whoever asks, and about where they ask from."""
        for pattern in self._patterns_for(kind, name):
            if pattern not in self._patterns:
                continue
            for principal in (identity.principal, EVERYBODY):
                for host in (identity.host, ANY_HOST):
                    yield from self._rules.get((pattern, principal, host), ())

    def _of(self, identity: Identity, kind: ResourceType) -> Iterator[Acl]:
        for principal in (identity.principal, EVERYBODY):
            for acl in self._of_principals.get((kind, principal), ()):
                if acl.host in {ANY_HOST, identity.host}:
                    yield acl

    def _has_rules(self, kind: ResourceType, name: str) -> bool:
        return any(pattern in self._patterns for pattern in self._patterns_for(kind, name))

    def _patterns_for(self, kind: ResourceType, name: str) -> Iterator[Pattern]:
        yield kind, PatternType.LITERAL, name
        yield kind, PatternType.LITERAL, ANY_NAME
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                yield kind, PatternType.PREFIXED, name[:length]
