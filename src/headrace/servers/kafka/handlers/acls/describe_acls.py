"""DescribeAcls (key 29). There are no access rules: every client may do everything, and whoever asks is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request

NO_RULES: Final = "this cluster has no access rules: every client may do everything"
IN_WORDS_MAX: Final = 1000  # rules in a request; with more, the code must do


def handle(message: DescribeAclsRequest, request: Request) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_RULES)


def words_for(count: int) -> str | None:
    """What each of so many is told: an answer must not be many times as large as its request."""
    return NO_RULES if count <= IN_WORDS_MAX else None
