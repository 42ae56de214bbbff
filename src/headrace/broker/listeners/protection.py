"""What one listener asks of whoever connects, and what it shows them: from its settings, as values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.access.authentication.certificate_names import NameRules, NotRules
from headrace.access.listeners import ClientAuth, ListenerSecurity, SecurityProtocol
from headrace.broker.access.listener_access import FAILURE_DELAY_S, NO_LIMITS, ConnectionLimits
from headrace.broker.listeners.places import UnusableListeners
from headrace.broker.listeners.token_settings import TokenSettings, token_settings
from headrace.client.security.secret_values import UnusableSettings, read_secret
from headrace.client.security.tls_choice import parse_tls

if TYPE_CHECKING:
    from headrace.broker.listeners.own_settings import OwnSettings
    from headrace.runtime.tls.settings import TlsSettings

SECRET_FILE: Final = "headrace.cluster.secret.file"  # noqa: S105 - a setting's name
SECRET_MIN: Final = 16  # characters; fewer can be guessed by whoever sees one login
NODES_LOG_IN_BY: Final = ("SCRAM-SHA-512",)
RULES: Final = "ssl.principal.mapping.rules"
CLIENT_AUTH: Final = "ssl.client.auth"

_OWN: Final = (
    *("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.certificate.location"),
    *("ssl.keystore.key", "ssl.key.location", "ssl.key.password", "ssl.key.password.file"),
    *("ssl.keystore.type", "ssl.keystore.password"),
)
_TRUSTED: Final = (
    *("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location"),
    *("ssl.truststore.type", "ssl.truststore.password"),
)
_OTHERS: Final = ("ssl.enabled.protocols", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm")
_OF_THE_LOGIN: Final = ("sasl.enabled.mechanisms", "connections.max.reauth.ms", "sasl.oauthbearer.jwks.endpoint.url")
_NAMES_USERS: Final = re.compile(r"\buser_[^\s=]+\s*=")
_PROTOCOL: Final = "listener.security.protocol.map"


@dataclass(frozen=True, slots=True)
class Protection:
    """Of one listener."""

    security: ListenerSecurity
    tls: TlsSettings | None = None
    """Present exactly if the protocol has TLS."""
    expects_host: bool = True
    """Whether who dials such a listener expects it to be named by the host that was dialled."""
    rules_text: str = "DEFAULT"
    name_rules: NameRules = field(default_factory=NameRules)
    session_max_s: float = math.inf
    failure_delay_s: float = FAILURE_DELAY_S
    tokens: TokenSettings | None = None
    secret: str | None = field(default=None, repr=False)
    """Of the cluster, where nodes know each other by one."""
    secret_path: str = ""
    limits: ConnectionLimits = NO_LIMITS


def of_clients(own: OwnSettings, protocol: SecurityProtocol) -> Protection:
    """Raises UnusableListeners."""
    _expect_needed(own, protocol)
    client_auth = ClientAuth(own.value(CLIENT_AUTH)) if protocol.has_tls else ClientAuth.NONE
    mechanisms = _mechanisms(own, protocol) if protocol.has_sasl else ()
    tls, expects_host = _tls(own, client_auth) if protocol.has_tls else (None, True)
    rules_text, rules = _rules(own)
    return Protection(
        ListenerSecurity(own.listener, protocol, mechanisms, client_auth),
        tls,
        expects_host,
        rules_text,
        rules,
        _session_max_s(own, mechanisms),
        own.value("connection.failed.authentication.delay.ms") / 1000,
        token_settings(own) if "OAUTHBEARER" in mechanisms else None,
        limits=ConnectionLimits(own.limit("max.connections"), own.limit("max.connection.creation.rate")),
    )


def of_http(own: OwnSettings, protocol: SecurityProtocol) -> Protection:
    """Raises UnusableListeners."""
    if protocol.has_sasl:
        raise UnusableListeners(_PROTOCOL, f"{own.listener} speaks {protocol.value}, and HTTP has no SASL: use SSL")
    return of_clients(own, protocol)


def of_nodes(own: OwnSettings, protocol: SecurityProtocol) -> Protection:
    """The cluster has a CA of its own, or a secret; a secret adds SASL to what the listener speaks. Raises
    UnusableListeners."""
    secret = _secret(own)
    if protocol.has_sasl and secret is None:
        raise UnusableListeners(
            _PROTOCOL, f"nodes log in at {own.listener} by a secret that all of them have: set {SECRET_FILE}"
        )
    if secret is not None:
        protocol = SecurityProtocol.SASL_SSL if protocol.has_tls else SecurityProtocol.SASL_PLAINTEXT
    _expect_needed(own, protocol)
    client_auth = _auth_of_nodes(own, has_secret=secret is not None) if protocol.has_tls else ClientAuth.NONE
    tls, expects_host = _tls(own, client_auth) if protocol.has_tls else (None, True)
    if tls is not None and tls.trusted is None:
        raise UnusableListeners(
            own.name_of("ssl.truststore.location"),
            f"nodes dial each other at {own.listener}, and nothing says whose certificates they accept: set it to the "
            "CA of the cluster",
        )
    rules_text, rules = _rules(own)
    security = ListenerSecurity(own.listener, protocol, NODES_LOG_IN_BY if secret else (), client_auth)
    return Protection(security, tls, expects_host, rules_text, rules, secret=secret, secret_path=own.text(SECRET_FILE))


def _auth_of_nodes(own: OwnSettings, *, has_secret: bool) -> ClientAuth:
    """What is said of all listeners is about clients."""
    said = ClientAuth(own.value(CLIENT_AUTH)) if own.has_own(CLIENT_AUTH) else None
    if has_secret:
        return said or ClientAuth.NONE
    if said not in {None, ClientAuth.REQUIRED}:
        raise UnusableListeners(
            own.name_of(CLIENT_AUTH), f"nodes know each other by certificates: set it to required, or set {SECRET_FILE}"
        )
    return ClientAuth.REQUIRED


def _secret(own: OwnSettings) -> str | None:
    path = own.text(SECRET_FILE)
    if not path:
        return None
    try:
        secret = read_secret(path, SECRET_FILE)
    except UnusableSettings as wrong:
        raise UnusableListeners(SECRET_FILE, str(wrong).removeprefix(f"{SECRET_FILE}: ")) from None
    if len(secret) < SECRET_MIN or not secret.isprintable():
        raise UnusableListeners(
            SECRET_FILE,
            f"{path} must hold {SECRET_MIN} printable characters at least, in one line: `openssl rand -base64 32` "
            "makes a secret",
        )
    return secret


def _expect_needed(own: OwnSettings, protocol: SecurityProtocol) -> None:
    """Who asks for a protection of a listener must not get one without."""
    for names, has_it, what in ((_OWN + _TRUSTED, protocol.has_tls, "TLS"), (_OF_THE_LOGIN, protocol.has_sasl, "SASL")):
        said = next((name for name in names if own.has_own(name)), None)
        if said is not None and not has_it:
            raise UnusableListeners(
                own.name_of(said),
                f"it is set, but {own.listener} speaks {protocol.value}, without {what}: name another protocol in "
                f"{_PROTOCOL}, or take it out",
            )


def _tls(own: OwnSettings, client_auth: ClientAuth) -> tuple[TlsSettings, bool]:
    given = {**own.given(_OWN), **own.given(_TRUSTED)}
    given |= {name: own.text(name) for name in _OTHERS}
    path = given.pop("ssl.key.password.file", "")
    try:
        if path:
            given["ssl.key.password"] = read_secret(path, own.name_of("ssl.key.password.file"))
        choice = parse_tls(given)
    except UnusableSettings as wrong:
        raise UnusableListeners(f"listener {own.listener}", str(wrong)) from None
    if choice.settings.own is None:
        raise UnusableListeners(
            own.name_of("ssl.keystore.location"),
            f"listener {own.listener} speaks TLS, and has no certificate: set it to a PEM file of its certificate and "
            "key",
        )
    if client_auth is not ClientAuth.NONE and choice.settings.trusted is None:
        raise UnusableListeners(
            own.name_of("ssl.truststore.location"),
            f"whoever connects to {own.listener} is asked for a certificate, and nothing says whose are accepted: set "
            "it to a PEM file of CAs",
        )
    return choice.settings, choice.expects_host


def _mechanisms(own: OwnSettings, protocol: SecurityProtocol) -> tuple[str, ...]:
    setting = "sasl.enabled.mechanisms"
    mechanisms: tuple[str, ...] = own.value(setting)
    if not mechanisms:
        raise UnusableListeners(own.name_of(setting), f"nobody can log in at {own.listener} by no mechanism: name one")
    if "PLAIN" in mechanisms and not protocol.has_tls:
        raise UnusableListeners(
            own.name_of(setting),
            f"PLAIN sends passwords as they are, and {own.listener} speaks {protocol.value}, which everybody on the "
            "way can read: use SASL_SSL, or SCRAM-SHA-512",
        )
    for mechanism in mechanisms:
        if _NAMES_USERS.search(own.text("sasl.jaas.config", mechanism)):
            raise UnusableListeners(
                own.name_of("sasl.jaas.config", mechanism),
                "it names users, and users are kept by the cluster here: take it out, and make them with `headrace "
                "users create`",
            )
    return mechanisms


def _session_max_s(own: OwnSettings, mechanisms: tuple[str, ...]) -> float:
    """The shortest of those that the mechanisms have: one session's end is known before its mechanism is."""
    longest = [own.value("connections.max.reauth.ms", mechanism) / 1000 for mechanism in mechanisms]
    return min(filter(None, longest), default=math.inf)


def _rules(own: OwnSettings) -> tuple[str, NameRules]:
    text = own.text(RULES)
    try:
        return text, NameRules(text)
    except NotRules as wrong:
        raise UnusableListeners(own.name_of(RULES), str(wrong)) from None
