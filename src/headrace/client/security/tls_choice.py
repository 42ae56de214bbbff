"""The settings that begin with `ssl.`, those of librdkafka and those of Java: both say the same things."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.client.security.secret_values import UnusableSettings
from headrace.runtime.tls.settings import Pem, TlsSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUSTED: Final = {
    "ssl.ca.location": "file",
    "ssl.ca.pem": "text",
    "ssl.truststore.location": "file",
    "ssl.truststore.certificates": "text",
}
_OWN: Final = {
    "ssl.certificate.location": "file",
    "ssl.certificate.pem": "text",
    "ssl.keystore.location": "file",
    "ssl.keystore.certificate.chain": "text",
}
_KEY: Final = {"ssl.key.location": "file", "ssl.key.pem": "text", "ssl.keystore.key": "text"}
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_CHECK: Final = "enable.ssl.certificate.verification"
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_STORE_PASSWORDS: Final = ("ssl.truststore.password", "ssl.keystore.password")

NAMES: Final = frozenset(
    {*_TRUSTED, *_OWN, *_KEY, _HOST_CHECK, _CHECK, *_TYPES, *_STORE_PASSWORDS}
    | {"ssl.key.password", "ssl.enabled.protocols", "ssl.cipher.suites"}
)
WITHOUT_EFFECT: Final = frozenset(
    {
        "ssl.protocol",
        "ssl.provider",
        "ssl.providers",
        "ssl.secure.random.implementation",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.curves.list",
        "ssl.sigalgs.list",
    }
)
"""Not among them: `ssl.crl.location`. Who trusts in a list of revoked certificates must not think that it is used."""

TO_PEM: Final = (
    "keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12, then openssl pkcs12 "
    "-in store.p12 -nodes -out store.pem"
)


@dataclass(frozen=True, slots=True)
class TlsChoice:
    """What a client shows, and whom it believes."""

    settings: TlsSettings = field(default_factory=TlsSettings)
    expects_host: bool = True
    """The certificate is for the host that was asked for."""
    verifies: bool = True
    """The certificate comes from somebody who is trusted. Without that, TLS protects from eavesdroppers alone."""


def parse_tls(given: Mapping[str, str]) -> TlsChoice:
    """Raises UnusableSettings. Files are not looked at yet."""
    for name in _TYPES:
        if given.get(name, "PEM").upper() != "PEM":
            raise UnusableSettings(f"{name} is {given[name]}; expected is PEM. To make PEM of it: {TO_PEM}")
    for name in _STORE_PASSWORDS:
        if name in given:
            raise UnusableSettings(
                f"{name} is for Java's keystores; files here are PEM, where only a key has a password "
                f"(ssl.key.password). To make PEM of a keystore: {TO_PEM}"
            )
    own, key = _pem(given, _OWN), _pem(given, _KEY)
    if key is not None and own is None:
        raise UnusableSettings("a private key is given without its certificate: set ssl.certificate.location, too")
    settings = TlsSettings(
        own=own,
        key=key,
        key_password=given.get("ssl.key.password") or None,
        trusted=_pem(given, _TRUSTED),
        versions=_names(given.get("ssl.enabled.protocols", "")) or TlsSettings().versions,
        suites=_names(given.get("ssl.cipher.suites", "").replace(":", ",")),
    )
    return TlsChoice(settings, _expects_host(given), boolean(given, _CHECK, default=True))


def boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Raises UnusableSettings if it is neither true nor false."""
    text = given.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise UnusableSettings(f"{name} is {given[name]!r}; expected true or false")
    return text == "true"


def _expects_host(given: Mapping[str, str]) -> bool:
    text = given.get(_HOST_CHECK, "https").strip().lower()
    if text not in {"https", "none", ""}:
        raise UnusableSettings(f"{_HOST_CHECK} is {given[_HOST_CHECK]!r}; expected https, or none")
    return text == "https"


def _pem(given: Mapping[str, str], names: Mapping[str, str]) -> Pem | None:
    chosen = [name for name in names if given.get(name)]
    if not chosen:
        return None
    if len(chosen) > 1:
        raise UnusableSettings(f"{' and '.join(chosen)} say the same; expected is one of them")
    value = given[chosen[0]]
    if chosen[0] == "ssl.ca.location" and value == "probe":
        return None  # librdkafka's word for what the system trusts in
    return Pem(path=value) if names[chosen[0]] == "file" else Pem(text=value)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
