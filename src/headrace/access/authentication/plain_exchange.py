"""PLAIN, the server's side (RFC 4616): the password itself arrives, and is checked against what is kept for SCRAM."""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING

from headrace.access.authentication.credentials import verifier_for
from headrace.access.authentication.exchange import Accepted, Denied, Work
from headrace.wire.primitives import Malformed
from headrace.wire.sasl.plain import PlainLogin

if TYPE_CHECKING:
    from headrace.access.authentication.known_users import Found, KnownUsers


class PlainExchange:
    def __init__(self, users: KnownUsers) -> None:
        self._users = users

    def step(self, message: bytes) -> Denied | Work:
        try:
            login = PlainLogin.decode(message)
        except Malformed as error:
            return Denied(str(error))
        if login.authorization_id not in {"", login.username}:
            return Denied("nobody may log in for somebody else", login.username)
        found = self._users.for_plain(login.username)
        return Work(lambda: _checked(login, found))


def _checked(login: PlainLogin, found: Found) -> Accepted | Denied:
    """For somebody who does not exist, too: it must take as long."""
    kept = found.verifier
    shown = verifier_for(login.password, found.mechanism, kept.salt, kept.iterations)
    if compare_digest(shown.stored_key, kept.stored_key) and found.is_known:
        return Accepted(login.username)
    return Denied("wrong password" if found.is_known else "there is no such user", login.username)
