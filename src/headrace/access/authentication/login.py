"""One connection's way from nobody to somebody: which mechanism, how far its exchange is, and until when it counts.

A connection that is logged in may log in again, and has to before its session ends (KIP-368): as the same principal and
in the same way. Until that has succeeded, it is who it was.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.authentication.exchange import Accepted, Denied
from headrace.access.identity import USER, Principal
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.access.authentication.exchange import Challenge, Exchange, Step

AGAIN_AFTER_S: Final = 1.0  # as in Kafka: nobody needs it more often
STEPS_MAX: Final = 4  # messages of an exchange; the longest, SCRAM's, has two


class Session(NamedTuple):
    principal: Principal
    mechanism: str
    began_s: float
    ends_s: float
    """By the monotonic clock, as all times here; infinity if it has no end."""


class Login:
    def __init__(self, mechanisms: Sequence[str], begin: Callable[[str], Exchange], lifetime_max_s: float) -> None:
        """`begin` makes an exchange for a mechanism. A session lasts `lifetime_max_s` at most."""
        self.session: Session | None = None
        self.mechanism = ""
        """Of the exchange that is under way; empty if none is."""
        self._mechanisms = mechanisms
        self._begin = begin
        self._lifetime_max_s = lifetime_max_s
        self._exchange: Exchange | None = None
        self._steps_left = 0

    def is_open(self, now_s: float) -> bool:
        """Whether it may ask for anything."""
        return self.session is not None and now_s < self.session.ends_s

    def choose(self, mechanism: str, now_s: float) -> None:
        """Begin an exchange. Raises Refusal with Kafka's code if it may not."""
        if self._exchange is not None:
            raise Refusal(ErrorCode.ILLEGAL_SASL_STATE, "a login is under way, and another one was begun")
        if self.session is not None and now_s - self.session.began_s < AGAIN_AFTER_S:
            raise Refusal(ErrorCode.ILLEGAL_SASL_STATE, "the last login was less than a second ago")
        if mechanism not in self._mechanisms:
            offered = ", ".join(self._mechanisms)
            raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"this listener has {offered}, not {mechanism[:50]!r}")
        if self.session is not None and mechanism != self.session.mechanism:
            raise Refusal(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"a session that began with {self.session.mechanism} goes on with that, not with {mechanism}",
            )
        self._exchange, self.mechanism, self._steps_left = self._begin(mechanism), mechanism, STEPS_MAX

    def step(self, message: bytes) -> Step:
        """Raises Refusal if no exchange is under way."""
        if self._exchange is None:
            raise Refusal(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first, and chooses a mechanism")
        if self._steps_left == 0:
            return Denied("its exchange has too many messages")
        self._steps_left -= 1
        return self._exchange.step(message)

    def settle(self, outcome: Accepted | Denied | Challenge, now_s: float, wall_s: float) -> Denied | float | None:
        """How it ended: why not, or for how many seconds it counts (0 is without end). None if it goes on."""
        if not isinstance(outcome, Accepted | Denied):
            return None
        mechanism, self._exchange, self.mechanism = self.mechanism, None, ""
        if isinstance(outcome, Denied):
            return outcome
        principal = Principal(USER, outcome.name)
        if self.session is not None and self.session.principal != principal:
            return Denied(f"a session of {self.session.principal} cannot become one of {principal}", outcome.name)
        shown_s = math.inf if outcome.ends_at_s is None else outcome.ends_at_s - wall_s
        lasts_s = min(shown_s, self._lifetime_max_s)
        if lasts_s <= 0:
            return Denied("what it showed has expired", outcome.name)
        self.session = Session(principal, mechanism, now_s, now_s + lasts_s)
        return 0.0 if math.isinf(lasts_s) else lasts_s
