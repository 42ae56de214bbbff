"""Which rules a question means: Kafka's filters, where what is left open matches anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import ANY_NAME, Acl

if TYPE_CHECKING:
    from headrace.access.identity import Principal


class AclFilter(NamedTuple):
    """`ANY` and None mean that it does not matter."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    """`MATCH` with a name: every rule that counts for the resource of that name."""
    principal: Principal | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def only(self) -> Acl | None:
        """The one rule that it can match, if it leaves nothing open."""
        if self.name is None or self.principal is None or self.host is None:
            return None
        is_open = self.resource_type is ResourceType.ANY or self.operation is Operation.ANY
        if is_open or self.permission is Permission.ANY or self.pattern in {PatternType.ANY, PatternType.MATCH}:
            return None
        return Acl(
            self.resource_type, self.name, self.pattern, self.principal, self.host, self.operation, self.permission
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self._means_pattern_of(acl)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )

    def _means_pattern_of(self, acl: Acl) -> bool:
        if self.pattern not in {PatternType.ANY, PatternType.MATCH, acl.pattern}:
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == acl.name
        return covers(acl, self.name)


def covers(acl: Acl, name: str) -> bool:
    """Whether the rule counts for a resource of this name, of the kind that the rule is for."""
    if acl.pattern is PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in {name, ANY_NAME}
