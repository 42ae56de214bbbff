"""Logging in on a connection, by Kafka's SASL requests, and again before the session is over (KIP-368)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.client.security.exchanges import ExchangeFailed, Exchanges
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headrace.wire.sasl.text import printable

if TYPE_CHECKING:
    from headrace.client.connections.connection import Connection
    from headrace.client.security.credentials import Credentials
    from headrace.client.security.exchanges import Exchange
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.threads import Threads

STEPS_MAX: Final = 4
"""No mechanism here takes more: a node that goes on asking is none."""
RENEWAL: Final = (0.85, 0.95)
"""When a session is renewed, as a part of its life; not all connections at once."""
RENEWAL_IN_S_MAX: Final = 7 * 24 * 3600.0

LOGIN_KEYS: Final = frozenset({SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY})
"""Requests that are sent while all others wait for a login."""

_HANDSHAKE_VERSIONS: Final = (1, 1)
"""With version 0 the messages that follow would have no header."""


class Login:
    """What all connections of one client log in with."""

    def __init__(self, credentials: Credentials, entropy: Entropy, threads: Threads) -> None:
        self._exchanges = Exchanges(credentials, entropy.token)
        self._entropy = entropy
        self._threads = threads

    async def perform(self, connection: Connection) -> float:
        """Log in. Returns for how many seconds it lasts; 0: for as long as the connection.

        AuthenticationFailed if the node does not let us in, or is not the one that knows us.
        """
        try:
            await self._choose(connection)
            return await self._exchange(connection, self._exchanges.new())
        except ExchangeFailed as why:
            raise AuthenticationFailed(f"{self._attempt(connection)} failed: {why}") from why
        except Refusal as unsupported:
            raise AuthenticationFailed(f"{self._attempt(connection)} failed: {unsupported.message}") from unsupported

    def renewal_in_s(self, lasts_s: float) -> float:
        """When to log in again, for a login that lasts so long."""
        first, last = RENEWAL
        return min(lasts_s * (first + (last - first) * self._entropy.fraction()), RENEWAL_IN_S_MAX)

    async def _choose(self, connection: Connection) -> None:
        mechanism = self._exchanges.credentials.mechanism
        version = connection.version_for(SaslHandshakeRequest, within=_HANDSHAKE_VERSIONS)
        answer = await connection.request(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, version=version)
        match answer.error_code:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                offered = ", ".join(printable(name) for name in answer.mechanisms) or "none"
                raise ExchangeFailed(f"the node takes the mechanisms {offered}: set sasl.mechanism to one of them")
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise ExchangeFailed(
                    "nobody logs in at this address: take the port of another listener, or set security.protocol to "
                    "PLAINTEXT or SSL"
                )
            case code:
                raise ExchangeFailed(_named(code))

    async def _exchange(self, connection: Connection, exchange: Exchange) -> float:
        message: bytes | None = await self._threads.run(exchange.begin)
        answer = SaslAuthenticateResponse()
        for _ in range(STEPS_MAX):
            assert message is not None
            answer = await connection.request(SaslAuthenticateRequest(message), SaslAuthenticateResponse)
            if answer.error_code != ErrorCode.NONE:
                said = printable(answer.error_message) if answer.error_message else _named(answer.error_code)
                raise ExchangeFailed(said)
            said_last = bytes(answer.auth_bytes)
            message = await self._threads.run(lambda said=said_last: exchange.answer(said))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
            if message is None:
                return max(answer.session_lifetime_ms, 0) / 1000
        raise ExchangeFailed(f"the node asks for more than {STEPS_MAX} messages")

    def _attempt(self, connection: Connection) -> str:
        return f"{connection.address}: the login of {self._exchanges.who} by {self._exchanges.credentials.mechanism}"


class LoginSession:
    """The login of one connection: made when it is opened, and renewed for as long as it is open."""

    def __init__(self, login: Login, connection: Connection) -> None:
        self._login = login
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Log in, and do so again in time. AuthenticationFailed if the node does not let us in."""
        lasts_s = await self._login.perform(self._connection)
        if lasts_s > 0 and not self._connection.is_lost:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._login.renewal_in_s(lasts_s), self._renew_soon)

    def end(self) -> None:
        """The connection is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()

    def _renew_soon(self) -> None:
        self._renewal = asyncio.get_running_loop().create_task(self._renew(), name="renew a login")

    async def _renew(self) -> None:
        """Requests under way are answered as usual. Those that come meanwhile leave when it is done: a node takes
        nothing else in the middle of a login."""
        self._connection.hold()
        try:
            await self.begin()
        except ClientError as trouble:
            self._connection.give_up(str(trouble))
        else:
            self._connection.release()


def _named(code: int) -> str:
    try:
        return ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"
