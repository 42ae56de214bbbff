"""SaslHandshake (key 17): the way in which somebody wants to log in.

Version 0 is refused: the messages that follow it have no header, so that a failure could not be told. Clients of the
last eight years use version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.rights import open_to_all
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headrace.servers.kafka.interfaces import Request


RIGHTS = open_to_all("it is how somebody begins to log in")


def handle(message: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse:
    login = request.connection.login
    if login is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    try:
        login.choose(message.mechanism, request)
    except Refusal as refusal:
        return SaslHandshakeResponse(refusal.code, list(login.mechanisms))
    return SaslHandshakeResponse(mechanisms=list(login.mechanisms))
