"""DescribeAcls (key 29): the access rules that a filter lets through, by what they are for. Any node shows them."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from headrace.access.operations import Operation
from headrace.metadata.commands.acl_commands import AclText, find_acls, parse_filter
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from headrace.access.rules.acl import Acl
    from headrace.access.rules.filters import AclFilter
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.maps import Map
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request

NO_RULES: Final = (
    "this cluster has no access rules: every client may do everything. Nodes that are started with "
    "authorizer.class.name obey rules"
)
IN_WORDS_MAX: Final = 1000  # rules in a request; with more, the code must do


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=words_of(DescribeAclsResponse))


async def handle(
    message: DescribeAclsRequest, request: Request, view: MetadataView, authorizer: Authorizer, world: World
) -> DescribeAclsResponse:
    if not authorizer.is_on:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_RULES)
    try:
        meant = parse_filter(_text(message))
    except Refusal as refusal:
        return DescribeAclsResponse(error_code=refusal.code, error_message=refusal.message)
    # In a thread: the map does not change, and to look at 20,000 rules takes a tenth of a second.
    found = await world.threads.run(partial(_found, view.image.access.acls, meant))
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message=None, resources=found)


def _text(message: DescribeAclsRequest) -> AclText:
    return AclText(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )


def _found(acls: Map[Acl, None], meant: AclFilter) -> list[DescribeAclsResource]:
    """They come sorted, so that those for one resource stand together."""
    return [
        DescribeAclsResource(*resource, [_description(acl) for acl in theirs])
        for resource, theirs in groupby(find_acls(acls, meant), _resource)
    ]


def _resource(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.name, acl.pattern


def _description(acl: Acl) -> AclDescription:
    return AclDescription(str(acl.principal), acl.host, acl.operation, acl.permission)


def words_for(count: int) -> str | None:
    """What each of so many is told: an answer must not be many times as large as its request."""
    return NO_RULES if count <= IN_WORDS_MAX else None
