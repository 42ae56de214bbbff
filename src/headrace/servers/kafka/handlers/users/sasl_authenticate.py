"""SaslAuthenticate (key 36): one message of somebody who logs in, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import open_to_all
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request


RIGHTS = open_to_all("it is how somebody logs in")


async def handle(message: SaslAuthenticateRequest, request: Request) -> SaslAuthenticateResponse:
    login = request.connection.login
    if login is None:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, "nobody logs in on this listener")
    try:
        answer = await login.step(bytes(message.auth_bytes), request)
    except Refusal as refusal:
        return SaslAuthenticateResponse(refusal.code, refusal.message)
    return SaslAuthenticateResponse(auth_bytes=answer.message, session_lifetime_ms=int(answer.lasts_s * 1000))
