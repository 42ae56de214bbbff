"""How a client in Java is told to log in: Kafka's settings, for its own client and for what takes them as options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.security.secured_node import SecuredNode

LOGIN: Final = "org.apache.kafka.common.security"
WAYS: Final = {
    "SCRAM-SHA-256": ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    "SCRAM-SHA-512 over TLS": ("SASL_SSL", "SCRAM-SHA-512"),
    "PLAIN over TLS": ("SASL_SSL", "PLAIN"),
    "OAUTHBEARER over TLS": ("SASL_SSL", "OAUTHBEARER"),
    "certificate": ("SSL", ""),
}


def java_settings(node: SecuredNode, home: Path, name: str, password: str = "wonder") -> dict[str, str]:
    protocol, mechanism = WAYS[name]
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(node.certificates.path)}
    if mechanism == "OAUTHBEARER":
        token = home / "token"
        token.write_text(node.issuer.token("alice", 3600.0))
        handler = f"{LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler"
        module = f"{LOGIN}.oauthbearer.OAuthBearerLoginModule"
        settings |= {
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
            "sasl.login.callback.handler.class": handler,
        }
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required;"}
    elif mechanism:
        module = f"{LOGIN}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{LOGIN}.scram.ScramLoginModule"
        login = f'{module} required username="alice" password="{password}";'
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    else:
        held = node.certificates.issue("alice")
        both = home / "alice.pem"
        both.write_bytes(held.key.read_bytes() + held.certificate.read_bytes())
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    return settings
