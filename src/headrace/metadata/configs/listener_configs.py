"""The settings of a node's listeners, under Kafka's names: where each is, and what it asks of whoever connects.

What is said of all listeners may be said of one, as `listener.name.<name>.<setting>`, and some of one SASL mechanism of
it, as `listener.name.<name>.<mechanism>.<setting>`; the more special one counts. All are read at a node's start.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.metadata.configs.config_keys import ConfigKey, ConfigType

PREFIX: Final = "listener.name."
_TYPE_WORDS: Final = "How keys and certificates are stored: PEM is the one way."
_STORE_PASSWORD: Final = "Of Java's key stores, which cannot be read here: PEM files have none."  # noqa: S105 - words


def _fixed(name: str, kind: ConfigType, default: str | None, doc: str, **bounds: object) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, is_dynamic=False, **bounds)  # type: ignore[arg-type]


PLACE_CONFIGS: Final = (
    _fixed(
        "advertised.listeners",
        ConfigType.LIST,
        None,
        "The addresses that clients are told to use, each as NAME://host:port; where it says none, those of listeners.",
    ),
    _fixed(
        "controller.listener.names",
        ConfigType.LIST,
        "CONTROLLER",
        "Which of `listeners` is for the other nodes, and takes nobody else.",
    ),
    _fixed(
        "listener.security.protocol.map",
        ConfigType.LIST,
        "SSL:SSL,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "What each listener speaks, as NAME:PROTOCOL. CONTROLLER, for nodes, and HTTP, for health checks and metrics, "
        "are PLAINTEXT unless it says otherwise.",
    ),
    _fixed(
        "listeners",
        ConfigType.LIST,
        None,
        "The addresses that the node listens on, each as NAME://host:port; PLAINTEXT://127.0.0.1:9092 if nothing says "
        "otherwise. --listen and --cluster-listen change the addresses.",
    ),
)
"""Said once, for all listeners."""

SHARED_CONFIGS: Final = (
    _fixed(
        "headrace.cluster.secret.file",
        ConfigType.STRING,
        "",
        "A file with a secret that all nodes of the cluster have, by which they know each other. Without it they show "
        "certificates.",
    ),
    _fixed(
        "headrace.initial.users.file",
        ConfigType.STRING,
        "",
        "Verifiers of users' passwords that a new cluster begins with, as `headrace security init` writes them. Only "
        "a node that founds a cluster reads it.",
    ),
    _fixed(
        "headrace.insecure",
        ConfigType.BOOLEAN,
        "false",
        "Whether the node may listen where others reach it without knowing them, as with --insecure.",
    ),
)
"""Of the node as a whole, too."""

TLS_CONFIGS: Final = (
    _fixed(
        "ssl.ca.location",
        ConfigType.STRING,
        "",
        "The same as ssl.truststore.location, under the name of other clients.",
    ),
    _fixed(
        "ssl.certificate.location",
        ConfigType.STRING,
        "",
        "A PEM file of the node's certificate, and of those between it and the CA; its key may be in ssl.key.location.",
    ),
    _fixed(
        "ssl.cipher.suites", ConfigType.LIST, "", "The cipher suites that are offered; OpenSSL's choice if it is empty."
    ),
    _fixed(
        "ssl.client.auth",
        ConfigType.STRING,
        "none",
        "Whether clients show a certificate: required, requested (who shows none is ANONYMOUS), or none. Nodes always "
        "do among themselves, unless they have a secret.",
        allowed=("required", "requested", "none"),
    ),
    _fixed(
        "ssl.enabled.protocols",
        ConfigType.LIST,
        "TLSv1.2,TLSv1.3",
        "Which versions of TLS are spoken; older ones can be read by others.",
        allowed=("TLSv1.2", "TLSv1.3"),
    ),
    _fixed(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "Whether a node's certificate must name the host where the others dial it (https), or need not (empty).",
        allowed=("https", ""),
    ),
    _fixed(
        "ssl.key.location",
        ConfigType.STRING,
        "",
        "A PEM file of the private key, where it is not beside the certificate.",
    ),
    _fixed("ssl.key.password", ConfigType.PASSWORD, None, "What the private key is encrypted with."),
    _fixed("ssl.key.password.file", ConfigType.STRING, "", "A file with what the private key is encrypted with."),
    _fixed("ssl.keystore.certificate.chain", ConfigType.STRING, None, "The certificate as PEM text."),
    _fixed("ssl.keystore.key", ConfigType.PASSWORD, None, "The private key as PEM text."),
    _fixed(
        "ssl.keystore.location",
        ConfigType.STRING,
        "",
        "A PEM file of the node's certificate, of those between it and the CA, and of its private key. It is read "
        "again when it has changed.",
    ),
    _fixed("ssl.keystore.password", ConfigType.PASSWORD, None, _STORE_PASSWORD),
    _fixed("ssl.keystore.type", ConfigType.STRING, "PEM", _TYPE_WORDS),
    _fixed(
        "ssl.principal.mapping.rules",
        ConfigType.STRING,
        "DEFAULT",
        "What makes a certificate's name a principal: DEFAULT takes it whole, RULE:pattern/replacement/[LU] parts of "
        "it. Who fits no rule is not let in.",
    ),
    _fixed(
        "ssl.truststore.certificates", ConfigType.STRING, None, "The CAs whose certificates are accepted, as PEM text."
    ),
    _fixed(
        "ssl.truststore.location",
        ConfigType.STRING,
        "",
        "A PEM file of the CAs whose certificates are accepted. It is read again when it has changed.",
    ),
    _fixed("ssl.truststore.password", ConfigType.PASSWORD, None, _STORE_PASSWORD),
    _fixed("ssl.truststore.type", ConfigType.STRING, "PEM", _TYPE_WORDS),
)
"""Of all listeners with TLS, or of one."""

LOGIN_CONFIGS: Final = (
    _fixed(
        "connection.failed.authentication.delay.ms",
        ConfigType.INT,
        "100",
        "How long whoever could not log in waits for the answer, so that guessing is slow.",
        low=0,
        high=10_000,
    ),
    _fixed(
        "connections.max.reauth.ms",
        ConfigType.LONG,
        "0",
        "After how long somebody has to log in again; 0 is never.",
        low=0,
    ),
    _fixed(
        "sasl.enabled.mechanisms",
        ConfigType.LIST,
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "How clients may log in where the protocol has SASL. PLAIN needs TLS.",
        allowed=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
    ),
    _fixed("sasl.jaas.config", ConfigType.PASSWORD, None, "Of Java's brokers. Users are kept by the cluster here."),
    _fixed(
        "sasl.oauthbearer.clock.skew.seconds",
        ConfigType.INT,
        "30",
        "How far apart the clocks of this node and of whoever issues tokens may be.",
        low=0,
        high=3600,
    ),
    _fixed("sasl.oauthbearer.expected.audience", ConfigType.LIST, "", "A token must be for one of them; empty is any."),
    _fixed(
        "sasl.oauthbearer.expected.issuer", ConfigType.STRING, "", "Who must have issued a token; empty is anybody."
    ),
    _fixed(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ConfigType.LONG,
        "3600000",
        "How often the keys of tokens are fetched again.",
        low=1000,
    ),
    _fixed(
        "sasl.oauthbearer.jwks.endpoint.url",
        ConfigType.STRING,
        "",
        "Where the keys are that tokens are signed with: file:///path, https://… or, from this machine, http://…",
    ),
    _fixed("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", "Where a token has its scopes."),
    _fixed("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", "Where a token has the name of who shows it."),
)
"""Of all listeners with SASL, or of one."""

LISTENER_CONFIGS: Final = {
    key.name: key
    for key in sorted((*PLACE_CONFIGS, *SHARED_CONFIGS, *TLS_CONFIGS, *LOGIN_CONFIGS), key=lambda key: key.name)
}

LIMIT_CONFIGS: Final = {
    key.name: key
    for key in (
        _fixed(
            "max.connection.creation.rate",
            ConfigType.INT,
            None,
            "The most connections that this listener takes in a second; more of them wait, and are closed if that "
            "would be for more than five seconds.",
            low=1,
        ),
        _fixed("max.connections", ConfigType.INT, None, "The most connections of this listener at a time.", low=1),
    )
}
"""Of one listener alone: the node's settings of these names go beside them."""

_OF_ONE_LISTENER: Final = {key.name: key for key in (*TLS_CONFIGS, *LOGIN_CONFIGS, *LIMIT_CONFIGS.values())}
_OF_ONE_MECHANISM: Final = {
    name: key
    for name, key in _OF_ONE_LISTENER.items()
    if name.startswith(("sasl.oauthbearer.", "sasl.jaas.")) or name == "connections.max.reauth.ms"
}
MECHANISM_WORDS: Final = ("scram-sha-256", "scram-sha-512", "plain", "oauthbearer")
_OWN_NAME: Final = re.compile(
    rf"{re.escape(PREFIX)}(?P<listener>[a-z0-9_-]+)\.(?:(?P<mechanism>{'|'.join(MECHANISM_WORDS)})\.)?(?P<setting>.+)"
)


class OwnName(NamedTuple):
    """What `listener.name.…` refers to."""

    listener: str
    """In capitals, as listeners are named."""
    mechanism: str
    """Empty, or one of `MECHANISM_WORDS`."""
    key: ConfigKey


def own_name(name: str) -> OwnName | None:
    """None if it is no setting of one listener."""
    parts = _OWN_NAME.fullmatch(name)
    if parts is None:
        return None
    mechanism = parts["mechanism"] or ""
    key = (_OF_ONE_MECHANISM if mechanism else _OF_ONE_LISTENER).get(parts["setting"])
    return None if key is None else OwnName(parts["listener"].upper(), mechanism, key)


def own_config_key(name: str) -> ConfigKey | None:
    """The key of a setting of one listener, which has no default: the setting of all listeners is that."""
    found = own_name(name)
    return None if found is None else replace(found.key, name=name, default=None)
