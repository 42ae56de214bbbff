"""A client on a real socket that logs in, request by request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.client.security.credentials import PasswordCredentials, TokenCredentials
from headrace.client.security.exchanges import Exchanges
from headrace.runtime.entropy import SystemEntropy
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from headrace.client.security.credentials import Credentials
    from tests.unit.servers.living_server import Client

ALICE = PasswordCredentials("SCRAM-SHA-256", "alice", "wonder")


def by(mechanism: str, name: str = "alice", password: str = "wonder") -> PasswordCredentials:
    return PasswordCredentials(mechanism, name, password)


def by_token(token: str) -> TokenCredentials:
    return TokenCredentials(token)


async def choose(client: Client, mechanism: str, version: int = 1) -> Any:
    return await client.ask(SaslHandshakeRequest(mechanism), version)


async def say(client: Client, message: bytes, version: int = 2) -> Any:
    return await client.ask(SaslAuthenticateRequest(message), version)


async def log_in(client: Client, credentials: Credentials = ALICE) -> Any:
    """The last answer: a yes that the client has checked, or a no."""
    answer = await choose(client, credentials.mechanism)
    if answer.error_code:
        return answer
    exchange = Exchanges(credentials, SystemEntropy().token).new()
    message: bytes | None = exchange.begin()
    while message is not None:
        answer = await say(client, message)
        if answer.error_code:
            return answer
        message = exchange.answer(bytes(answer.auth_bytes))
    return answer
