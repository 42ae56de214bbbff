"""CreateAcls (key 30): each rule by itself is taken or refused. The answer comes when this node obeys them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.acl_commands import AclText, create_acls
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.handlers.acls.describe_acls import words_for
from headrace.servers.kafka.rights import Each, Rights, on_cluster
from headrace.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from headrace.access.rules.acl import Acl
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.membership.commands import Commands
    from headrace.metadata.decisions.decision import Outcome
    from headrace.servers.kafka.interfaces import Request


def _refused(_: AclCreation, refusal: Refusal) -> AclCreationResult:
    return AclCreationResult(refusal.code, refusal.message)


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), each=(Each("creations", "results", _refused),))


async def handle(
    message: CreateAclsRequest, request: Request, authorizer: Authorizer, commands: Commands
) -> CreateAclsResponse:
    if not authorizer.is_on:  # a rule that is kept and not obeyed would be worse than none
        refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, words_for(len(message.creations)))
        return CreateAclsResponse(results=[refused] * len(message.creations))
    texts = [_text(creation) for creation in message.creations]
    names = [creation.resource_name for creation in message.creations]
    outcomes = await commands.submit_each(names, lambda image: create_acls(image, texts))
    return CreateAclsResponse(results=[_result(outcome) for outcome in outcomes])


def _text(creation: AclCreation) -> AclText:
    return AclText(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _result(outcome: Outcome[Acl]) -> AclCreationResult:
    if isinstance(outcome.result, Refusal):
        return AclCreationResult(outcome.result.code, outcome.result.message)
    return AclCreationResult(ErrorCode.NONE, None)
