"""What a client shows to log in."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.wire.sasl.oauthbearer import MECHANISM as OAUTHBEARER


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    """For PLAIN and SCRAM."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """For OAUTHBEARER: a token, or the file that somebody else keeps a fresh one in. It is read anew for each login."""

    token: str = field(default="", repr=False)
    path: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def mechanism(self) -> str:
        """SASL's name for it."""
        return OAUTHBEARER


Credentials = PasswordCredentials | TokenCredentials
