"""CreateAcls (key 30). Refused, rule by rule: a rule that is kept and not obeyed would be worse than none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.handlers.acls.describe_acls import words_for
from headrace.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request


def handle(message: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, words_for(len(message.creations)))
    return CreateAclsResponse(results=[refused] * len(message.creations))
