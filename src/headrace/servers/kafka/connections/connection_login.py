"""One connection's login: nothing else is looked at before it has succeeded, nor once its session has ended.

Both of SASL's requests are served like any other that takes a while: what is pipelined behind one waits, and nothing is
read meanwhile, so that a failure is answered late and never twice at once (KIP-306). A login may be renewed at any time
(KIP-368); until the renewal has succeeded, requests are served as before, for as long as the session lasts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.access.authentication.exchange import Accepted, Challenge, Denied, Work
from headrace.access.authentication.login import Login
from headrace.access.identity import Identity
from headrace.model.errors import ErrorCode, Refusal
from headrace.servers.kafka.interfaces import LoginAnswer
from headrace.wire.api import APIS, ApiKey
from headrace.wire.primitives import Malformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.servers.kafka.connections.connection import Connection
    from headrace.servers.kafka.connections.listener_logins import ListenerLogins
    from headrace.servers.kafka.interfaces import Request

FRAME_BYTES_MAX: Final = 64 << 10  # the longest token is a few KiB
LINGER_S: Final = 0.2  # some clients that read an answer and the end at once take it for the end alone
BEFORE_LOGIN: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
FOR_RENEWAL: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
FAILED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
"""Kafka's sentence, whatever was wrong."""


class ConnectionLogin:
    def __init__(self, connection: Connection, logins: ListenerLogins) -> None:
        self._connection = connection
        self._logins = logins
        access = logins.access
        self._login = Login(access.security.mechanisms, logins.exchange_by, access.session_max_s)
        self._within_s = access.login_within_s
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(connection.link.since_s + self._within_s, self._took_too_long)
        """Of the login, then of its session."""
        self._unconfirmed: tuple[str, str, Request] | None = None
        """A failure that the client has been told of, and has not confirmed."""

    @property
    def mechanisms(self) -> Sequence[str]:
        return self._logins.access.security.mechanisms

    # ---- what the connection calls

    @property
    def frame_max_bytes(self) -> int:
        return FRAME_BYTES_MAX if self._login.session is None else self._connection.server.frame_max_bytes

    def look_at(self, api_key: int) -> None:
        """A request begins to arrive while nothing but logging in is allowed. Raises Malformed if it is for anything
        else."""
        session = self._login.session
        if session is not None and api_key not in FOR_RENEWAL:
            self._logins.counters.expired += 1
            raise Malformed(
                f"the session of {session.principal} has ended, and is not renewed: it asks for {_named(api_key)}"
            )
        if api_key not in BEFORE_LOGIN:
            raise Malformed(
                f"it asks for {_named(api_key)} without having logged in: clients of this port set security.protocol "
                f"to {self._logins.access.security.protocol.value}, and sasl.mechanism"
            )

    def make_way(self, reason: str) -> None:
        self.over()
        self._connection.refuse(reason)

    def over(self) -> None:
        """Nothing more comes of it, or the connection is lost."""
        self._timer.cancel()
        self._logins.is_done_with(self)
        if self._unconfirmed is not None:
            reason, claimed, request = self._unconfirmed
            self._unconfirmed = None
            self._logins.note_failure(self._connection, reason, claimed, request.client_id)

    def _took_too_long(self) -> None:
        self.make_way(f"nobody has logged in within {self._within_s:g} s")

    def _session_has_ended(self) -> None:
        self._connection.kept_out_by = self

    # ---- what handlers call

    def choose(self, mechanism: str, request: Request) -> None:
        try:
            if request.version == 0:
                raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "SaslHandshake 0, after which messages have no header")
            self._login.choose(mechanism, self._connection.clock.monotonic_s())
        except Refusal as refusal:
            self._refuse(refusal.message, "", request)
            raise

    async def step(self, message: bytes, request: Request) -> LoginAnswer:
        mechanism = self._login.mechanism
        try:
            outcome = self._login.step(message)
        except Refusal as refusal:
            self._refuse(refusal.message, "", request)
            raise
        if isinstance(outcome, Work):
            outcome = await self._logins.done_in_a_thread(outcome, self._connection)
        if isinstance(outcome, Accepted) and self._connection.is_gone:
            outcome = Denied("it left before it was let in", outcome.name)
        clock = self._connection.clock
        ended = self._login.settle(outcome, clock.monotonic_s(), clock.wall_ms() / 1000)
        self._unconfirmed = None
        if isinstance(ended, Denied):
            self._refuse(f"{mechanism}: {ended.reason}", ended.name, request)
            await asyncio.sleep(self._logins.access.failure_delay_s)
            raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED.format(mechanism))
        assert not isinstance(outcome, Denied)
        if isinstance(outcome, Challenge):
            if outcome.denied is not None:
                self._unconfirmed = f"{mechanism}: {outcome.denied.reason}", outcome.denied.name, request
            if self._connection.is_gone:
                self.over()
            return LoginAnswer(outcome.message)
        assert ended is not None
        self._let_in(ended, request)
        return LoginAnswer(outcome.message, ended)

    def _let_in(self, lasts_s: float, request: Request) -> None:
        session, connection = self._login.session, self._connection
        assert session is not None
        self.over()
        if lasts_s:
            self._timer = asyncio.get_running_loop().call_later(lasts_s, self._session_has_ended)
        connection.kept_out_by = None
        connection.identity = Identity(session.principal, connection.link.peer.host)
        self._logins.note_success(connection, f"by {session.mechanism}", request.client_id)

    def _refuse(self, reason: str, claimed: str, request: Request) -> None:
        """What is answered now is the last that the client hears."""
        self.over()
        self._logins.note_failure(self._connection, reason, claimed, request.client_id)
        if not self._connection.is_gone:
            who = f" of {claimed!r}" if claimed else ""
            self._connection.server.log_refusal(self._connection, f"the login{who} failed: {reason}")
            self._connection.leave(LINGER_S)


def _named(api_key: int) -> str:
    return APIS[api_key].name if api_key in APIS else f"API {api_key}"
