"""DeleteAcls (key 31). There is nothing to delete, which is said of each filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.handlers.acls.describe_acls import words_for
from headrace.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request


def handle(message: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, words_for(len(message.filters)))
    return DeleteAclsResponse(filter_results=[refused] * len(message.filters))
