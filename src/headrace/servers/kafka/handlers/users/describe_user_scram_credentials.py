"""DescribeUserScramCredentials (key 50): who has a password, for which mechanism, and with how many iterations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.access.operations import Operation
from headrace.metadata.commands.user_commands import DescribedUser, describe_users
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.rights import Rights, on_cluster, words_of
from headrace.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request


RIGHTS = Rights(whole=(on_cluster(Operation.DESCRIBE),), refused=words_of(DescribeUserScramCredentialsResponse))


def handle(
    message: DescribeUserScramCredentialsRequest,
    request: Request,
    view: MetadataView,
) -> DescribeUserScramCredentialsResponse:
    verifiers = view.image.access.verifiers
    if not message.users:  # as in Kafka: none named means all
        return _answer([_result(user) for user in describe_users(verifiers, None)])
    counts = Counter(user.name for user in message.users)
    return _answer(
        [
            _result(user)
            if counts[user.name] == 1
            else DescribeUserScramCredentialsResult(
                user.name,
                ErrorCode.DUPLICATE_RESOURCE,
                f"the request names user {user.name[:100]!r} {counts[user.name]} times",
            )
            for user in describe_users(verifiers, list(counts))
        ]
    )


def _answer(results: list[DescribeUserScramCredentialsResult]) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _result(user: DescribedUser) -> DescribeUserScramCredentialsResult:
    if not user.mechanisms:
        code, words = ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {user.name[:100]!r} with a password"
        return DescribeUserScramCredentialsResult(user.name, code, words)
    infos = [CredentialInfo(mechanism, iterations) for mechanism, iterations in user.mechanisms]
    return DescribeUserScramCredentialsResult(user.name, ErrorCode.NONE, None, infos)
