"""OAUTHBEARER, the server's side (RFC 7628): a token that somebody else has signed says who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.authentication.exchange import Accepted, Challenge, Denied, Work
from headrace.wire.primitives import Malformed
from headrace.wire.sasl.oauthbearer import BearerLogin, BearerRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.access.authentication.exchange import Step


class BearerExchange:
    def __init__(self, check: Callable[[str], Accepted | Denied]) -> None:
        """`check` says whose a token is."""
        self._check = check
        self._denied: Denied | None = None

    def step(self, message: bytes) -> Step:
        if self._denied is not None:
            return self._denied  # whatever it answers: it was told, and that was all it waited for
        return Work(lambda: self._looked_at(message))

    def _looked_at(self, message: bytes) -> Accepted | Challenge | Denied:
        try:
            login = BearerLogin.decode(message)
        except Malformed as error:
            return Denied(str(error))
        outcome = self._check(login.token)
        if isinstance(outcome, Accepted) and login.authorization_id not in {"", outcome.name}:
            outcome = Denied("nobody may log in for somebody else", outcome.name)
        if isinstance(outcome, Accepted):
            return outcome
        self._denied = outcome
        return Challenge(BearerRefusal("invalid_token").encode(), outcome)
