"""One access rule, as Kafka has them: what is bound (the resource), and who may or must not do what with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headrace.access.identity import Principal
    from headrace.access.operations import Operation, PatternType, Permission, ResourceType

ANY_HOST: Final = "*"
ANY_NAME: Final = "*"
"""As a literal name: every resource of its kind."""


class Acl(NamedTuple):
    """Two that are equal are the same rule."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    """`LITERAL` or `PREFIXED`."""
    principal: Principal
    host: str
    operation: Operation
    permission: Permission
    """`ALLOW` or `DENY`."""
