"""The client's side of each login: what it says first, and what it answers. It touches nothing but the file of a token,
and chance is handed in. Some steps take milliseconds, so a thread does them.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.client.security.credentials import PasswordCredentials
from headrace.client.security.secret_values import UnusableSettings, read_secret
from headrace.wire.primitives import Malformed
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.oauthbearer import REFUSAL_SEEN, BearerLogin, BearerRefusal
from headrace.wire.sasl.plain import PlainLogin
from headrace.wire.sasl.scram import HASH_NAMES, ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed_text
from headrace.wire.sasl.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.security.credentials import Credentials, TokenCredentials

T = TypeVar("T")

ITERATIONS_MIN: Final = 4096
"""Fewer, and whoever listens in finds the password too easily: RFC 7677 asks for as many."""
ITERATIONS_MAX: Final = 200_000
"""Nodes take up to 16,384. Somebody who is none must not keep this program busy for long."""
NONCE_BYTES: Final = 24


class ExchangeFailed(Exception):
    """There will be no login. The text says why, without an address, which whoever has the connection adds."""


class Exchange(Protocol):
    """One login on one connection."""

    def begin(self) -> bytes:
        """What the client says first. Blocks."""
        ...

    def answer(self, said: bytes) -> bytes | None:
        """What it says to what the node has said; None when all has been said and the node has kept to the rules.

        Blocks. Raises ExchangeFailed.
        """
        ...


class Exchanges:
    """Makes an exchange for each login with the same credentials."""

    def __init__(self, credentials: Credentials, token: Callable[[int], bytes]) -> None:
        """`token` makes so many bytes that nobody can guess."""
        self.credentials = credentials
        self._token = token
        self._keys = _ScramKeys()

    @property
    def who(self) -> str:
        """For errors."""
        named = self.credentials
        return repr(named.username) if isinstance(named, PasswordCredentials) else "a bearer token"

    def new(self) -> Exchange:
        """For one login."""
        credentials = self.credentials
        if not isinstance(credentials, PasswordCredentials):
            return _BearerExchange(credentials)
        if credentials.mechanism in HASH_NAMES:
            return _ScramExchange(credentials, b64encode(self._token(NONCE_BYTES)).decode(), self._keys)
        return _PlainExchange(credentials)


class _ScramKeys:
    """The client's keys for one salt. It is the same for each login, and to compute them is made slow on purpose."""

    def __init__(self) -> None:
        self._known: tuple[bytes, int, bytes, bytes] | None = None

    def of(self, hash_name: str, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
        """The client's key and the server's."""
        known = self._known
        if known is None or known[:2] != (salt, iterations):
            salted = scram_keys.salted_password(hash_name, password, salt, iterations)
            keys = scram_keys.client_key(hash_name, salted), scram_keys.server_key(hash_name, salted)
            known = self._known = (salt, iterations, *keys)
        return known[2:]


class _ScramExchange:
    def __init__(self, credentials: PasswordCredentials, nonce: str, keys: _ScramKeys) -> None:
        self._hash_name = HASH_NAMES[credentials.mechanism]
        self._password = credentials.password
        self._keys = keys
        self._first = ClientFirst(credentials.username, nonce)
        self._expected = b""
        """The signature of a node that knows the user; empty before the proof is sent."""

    def begin(self) -> bytes:
        return self._first.encode()

    def answer(self, said: bytes) -> bytes | None:
        if self._expected:
            self._check(said)
            return None
        answer = _decoded(ServerFirst.decode, said)
        if not answer.nonce.startswith(self._first.nonce) or len(answer.nonce) == len(self._first.nonce):
            raise ExchangeFailed("the node did not continue the nonce of this login: it may repeat an older one")
        if not ITERATIONS_MIN <= answer.iterations <= ITERATIONS_MAX:
            raise ExchangeFailed(
                f"the node asks for {answer.iterations} iterations; expected {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        client_key, server_key = self._keys.of(self._hash_name, self._password, answer.salt, answer.iterations)
        unproven = ClientFinal(self._first.gs2_header.encode(), answer.nonce, b"")
        signed = signed_text(self._first, answer, unproven)
        self._expected = scram_keys.server_signature(self._hash_name, server_key, signed)
        proof = scram_keys.client_proof(self._hash_name, client_key, signed)
        return ClientFinal(unproven.binding, unproven.nonce, proof).encode()

    def _check(self, said: bytes) -> None:
        verdict = _decoded(ServerFinal.decode, said)
        if verdict.error:
            raise ExchangeFailed(verdict.error)
        if not hmac.compare_digest(verdict.signature, self._expected):
            raise ExchangeFailed("the node could not prove that it knows this user: it may not be what it seems")


class _PlainExchange:
    def __init__(self, credentials: PasswordCredentials) -> None:
        self._credentials = credentials

    def begin(self) -> bytes:
        return PlainLogin(self._credentials.username, self._credentials.password).encode()

    def answer(self, said: bytes) -> bytes | None:
        if said:
            raise ExchangeFailed("the node answered PLAIN with more than yes or no")
        return None


class _BearerExchange:
    def __init__(self, credentials: TokenCredentials) -> None:
        self._credentials = credentials
        self._refusal: BearerRefusal | None = None

    def begin(self) -> bytes:
        credentials = self._credentials
        try:
            token = credentials.token or read_secret(credentials.path, "sasl.oauthbearer.token.file")
        except UnusableSettings as unusable:
            raise ExchangeFailed(str(unusable)) from unusable
        message = BearerLogin(token, extensions=credentials.extensions).encode()
        try:
            BearerLogin.decode(message)
        except Malformed:
            raise ExchangeFailed("the bearer token is not made of the characters that tokens have") from None
        return message

    def answer(self, said: bytes) -> bytes | None:
        if self._refusal is not None:
            raise ExchangeFailed(_in_words(self._refusal))
        if not said:
            return None
        self._refusal = _decoded(BearerRefusal.decode, said)
        return REFUSAL_SEEN


def _in_words(refusal: BearerRefusal) -> str:
    wanted = f", it takes tokens of the scope {printable(refusal.scope)}" if refusal.scope else ""
    return f"the node does not take this token: {printable(refusal.status)}{wanted}"


def _decoded(decode: Callable[[bytes], T], said: bytes) -> T:
    try:
        return decode(said)
    except Malformed as nonsense:
        raise ExchangeFailed(f"the node answered nonsense: {nonsense}") from nonsense
