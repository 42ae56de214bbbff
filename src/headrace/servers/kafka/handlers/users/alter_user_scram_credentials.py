"""AlterUserScramCredentials (key 51): set and remove passwords. What arrives was salted by the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.authentication.known_users import SECRET_BYTES
from headrace.access.operations import Operation
from headrace.metadata.commands.user_commands import Change, Deletion, Upsertion, alter_scram_credentials
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import Rights, on_cluster
from headrace.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headrace.broker.membership.commands import Commands
    from headrace.metadata.decisions.decision import Outcome
    from headrace.runtime.world import World
    from headrace.servers.kafka.interfaces import Request


def _refused(
    message: AlterUserScramCredentialsRequest, _: Request, refusal: Refusal
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys([*(it.name for it in message.deletions), *(it.name for it in message.upsertions)])
    results = [AlterUserScramCredentialsResult(name, refusal.code, refusal.message) for name in names]
    return AlterUserScramCredentialsResponse(results=results)


RIGHTS = Rights(whole=(on_cluster(Operation.ALTER),), refused=_refused)


async def handle(
    message: AlterUserScramCredentialsRequest,
    request: Request,
    commands: Commands,
    world: World,
) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [
        *(Deletion(it.name, it.mechanism) for it in message.deletions),
        *(Upsertion(it.name, it.mechanism, it.iterations, it.salt, it.salted_password) for it in message.upsertions),
    ]
    names = dict.fromkeys(change.name for change in changes)
    secret = world.entropy.token(SECRET_BYTES)
    outcomes = await commands.submit_each(names, lambda image: alter_scram_credentials(image, changes, secret))
    return AlterUserScramCredentialsResponse(results=[_result(outcome) for outcome in outcomes])


def _result(outcome: Outcome[None]) -> AlterUserScramCredentialsResult:
    if isinstance(outcome.result, Refusal):
        return AlterUserScramCredentialsResult(outcome.name, outcome.result.code, outcome.result.message)
    return AlterUserScramCredentialsResult(outcome.name, ErrorCode.NONE, None)
