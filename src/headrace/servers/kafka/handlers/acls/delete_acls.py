"""DeleteAcls (key 31): what each filter lets through goes, and is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.acl_commands import AclText, delete_acls
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.acls.describe_acls import words_for
from headrace.servers.kafka.rights import Each, Rights, on_cluster
from headrace.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from headrace.access.rules.acl import Acl
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.membership.commands import Commands
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request


def _refused(_: DeleteAclsFilter, refusal: Refusal) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(refusal.code, refusal.message)


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), each=(Each("filters", "filter_results", _refused),))


async def handle(
    message: DeleteAclsRequest, request: Request, authorizer: Authorizer, commands: Commands
) -> DeleteAclsResponse:
    if not authorizer.is_on:
        refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, words_for(len(message.filters)))
        return DeleteAclsResponse(filter_results=[refused] * len(message.filters))
    texts = [_text(meant) for meant in message.filters]
    outcomes = await commands.submit_each([""] * len(texts), lambda image: delete_acls(image, texts))
    return DeleteAclsResponse(filter_results=[_result(outcome) for outcome in outcomes])


def _text(meant: DeleteAclsFilter) -> AclText:
    return AclText(
        meant.resource_type_filter,
        meant.resource_name_filter,
        meant.pattern_type_filter,
        meant.principal_filter,
        meant.host_filter,
        meant.operation,
        meant.permission_type,
    )


def _result(outcome: Outcome[list[Acl]]) -> DeleteAclsFilterResult:
    if isinstance(outcome.result, Refusal):
        return DeleteAclsFilterResult(outcome.result.code, outcome.result.message)
    return DeleteAclsFilterResult(ErrorCode.NONE, None, [_deleted(acl) for acl in outcome.result])


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        ErrorCode.NONE,
        None,
        acl.resource_type,
        acl.name,
        acl.pattern,
        str(acl.principal),
        acl.host,
        acl.operation,
        acl.permission,
    )
