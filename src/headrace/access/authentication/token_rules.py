"""What a token must say, besides being signed. Apart from the check itself, whose libraries only who needs it loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Kafka's `sasl.oauthbearer.…`, without the keys."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    leeway_s: float = 30.0
