"""Where the keys of OAUTHBEARER's tokens are, and what a token must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.access.authentication.token_rules import TokenRules
from headrace.broker.listeners.places import UnusableListeners
from headrace.broker.listeners.reach import is_loopback

if TYPE_CHECKING:
    from headrace.broker.listeners.own_settings import OwnSettings

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_MECHANISM: Final = "oauthbearer"


class UnusableKeys(ValueError):
    """The text says where they should be, and why they cannot be used."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    url: str
    """`file:` with an absolute path, `https:`, or `http:` on this machine. An operator says it: no token can."""
    refresh_s: float
    rules: TokenRules


def token_settings(own: OwnSettings) -> TokenSettings:
    """Raises UnusableListeners."""
    url = own.text(URL, _MECHANISM)
    if not url:
        raise UnusableListeners(
            own.name_of(URL, _MECHANISM),
            f"clients log in at {own.listener} by tokens, and nothing says whose are valid: set it to a file "
            "(file:///path) or an https:// address of a JSON Web Key Set",
        )
    _expect_safe(url, own.name_of(URL, _MECHANISM))

    def said(name: str) -> object:
        return own.value(f"sasl.oauthbearer.{name}", _MECHANISM)

    rules = TokenRules(
        audiences=tuple(own.value("sasl.oauthbearer.expected.audience", _MECHANISM)),
        issuer=str(said("expected.issuer")),
        subject_claim=str(said("sub.claim.name")) or "sub",
        scope_claim=str(said("scope.claim.name")) or "scope",
        leeway_s=float(own.value("sasl.oauthbearer.clock.skew.seconds", _MECHANISM)),
    )
    return TokenSettings(url, own.value("sasl.oauthbearer.jwks.endpoint.refresh.ms", _MECHANISM) / 1000, rules)


def _expect_safe(url: str, setting: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise UnusableListeners(setting, f"{url[:200]!r} is no address") from None
    is_file = parts.scheme == "file" and not host and parts.path.startswith("/")
    is_address = (parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and is_loopback(host))
    if not is_file and not is_address:
        raise UnusableListeners(
            setting,
            "expected file:///path or https://host/path: keys that others can exchange on the way protect from nobody",
        )
    if parts.username or parts.password:
        raise UnusableListeners(setting, "an address is shown to whoever may describe settings: no password in it")
