"""What an operator asks about access rules: which there are, add some, remove some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.identity import parse_principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import Acl
from headrace.client.errors import refuse_unless_ok

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.rules.filters import AclFilter
    from headrace.client.connections.cluster import Cluster
    from headrace.wire.messages.delete_acls import DeleteAclsMatchingAcl


class AclAdmin:
    """Who may do what. Refusal SECURITY_DISABLED as long as the nodes have no authoriser."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(self, wanted: AclFilter) -> list[Acl]:
        """Those that match, in order."""
        from headrace.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse  # noqa: PLC0415

        request = DescribeAclsRequest(*_on_the_wire(wanted))

        async def attempt() -> list[Acl]:
            answer = await self._cluster.ask(request, DescribeAclsResponse)
            refuse_unless_ok(answer.error_code, "access rules", answer.error_message)
            return sorted(
                Acl(
                    ResourceType(resource.resource_type),
                    resource.resource_name,
                    PatternType(resource.pattern_type),
                    parse_principal(rule.principal),
                    rule.host,
                    Operation(rule.operation),
                    Permission(rule.permission_type),
                )
                for resource in answer.resources
                for rule in resource.acls
            )

        return await self._cluster.retry(attempt)

    async def add(self, acls: Sequence[Acl]) -> None:
        """A rule that is there already stays. Raises the first Refusal; what was not refused is added."""
        from headrace.wire.messages.create_acls import (  # noqa: PLC0415
            AclCreation,
            CreateAclsRequest,
            CreateAclsResponse,
        )

        request = CreateAclsRequest(
            [
                AclCreation(
                    acl.resource_type,
                    acl.name,
                    acl.pattern,
                    str(acl.principal),
                    acl.host,
                    acl.operation,
                    acl.permission,
                )
                for acl in acls
            ]
        )

        async def attempt() -> None:
            answer = await self._cluster.ask_controller(request, CreateAclsResponse)
            for result in answer.results:
                refuse_unless_ok(result.error_code, "access rules", result.error_message)

        await self._cluster.retry(attempt)

    async def remove(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """What one of them matches; returns what was there, in order. Raises the first Refusal."""
        from headrace.wire.messages.delete_acls import (  # noqa: PLC0415
            DeleteAclsFilter,
            DeleteAclsRequest,
            DeleteAclsResponse,
        )

        request = DeleteAclsRequest([DeleteAclsFilter(*_on_the_wire(wanted)) for wanted in filters])

        async def attempt() -> list[Acl]:
            answer = await self._cluster.ask_controller(request, DeleteAclsResponse)
            removed: set[Acl] = set()
            for result in answer.filter_results:
                refuse_unless_ok(result.error_code, "access rules", result.error_message)
                for match in result.matching_acls:
                    refuse_unless_ok(match.error_code, "access rules", match.error_message)
                    removed.add(_removed(match))
            return sorted(removed)

        return await self._cluster.retry(attempt)


def _on_the_wire(wanted: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    principal = None if wanted.principal is None else str(wanted.principal)
    return (
        wanted.resource_type,
        wanted.name,
        wanted.pattern,
        principal,
        wanted.host,
        wanted.operation,
        wanted.permission,
    )


def _removed(match: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        ResourceType(match.resource_type),
        match.resource_name,
        PatternType(match.pattern_type),
        parse_principal(match.principal),
        match.host,
        Operation(match.operation),
        Permission(match.permission_type),
    )
