"""Listeners that ask who their clients are: users with passwords, tokens and certificates, for tests."""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from headrace.access.authentication.bearer_tokens import checked, keys_of
from headrace.access.authentication.credentials import SCRAM_MECHANISMS, ScramMechanism
from headrace.access.authentication.token_rules import TokenRules
from headrace.access.listeners import ClientAuth, ListenerSecurity, SecurityProtocol
from headrace.broker.access.listener_access import ListenerAccess
from headrace.broker.access.users import ClusterUsers
from headrace.metadata.commands.user_commands import Deletion, Upsertion, alter_scram_credentials
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.tls.contexts import ServerTls
from headrace.wire.sasl import scram_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.access.authentication.exchange import Accepted, Denied
    from headrace.broker.node import Node
    from tests.certificates import Held

SCRAM: Final = tuple(SCRAM_MECHANISMS)
ALL: Final = (*SCRAM, "PLAIN", "OAUTHBEARER")
ITERATIONS: Final = 4096
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class Issuer:
    """Signs tokens, and knows its own."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        shown = {**RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True), "kid": "one"}
        self._keys = keys_of(json.dumps({"keys": [shown]}))

    def token(self, name: str, lasts_s: float = 3600.0, **claims: Any) -> str:
        said = {"sub": name, "exp": time.time() + lasts_s, "iat": time.time(), **claims}
        return jwt.encode(said, self._key, "RS256", {"kid": "one"})

    def check(self, token: str) -> Accepted | Denied:
        return checked(token, self._keys, TokenRules(leeway_s=0.0), time.time())


async def add_user(node: Node, name: str, password: str) -> None:
    """As AlterUserScramCredentials does, for each mechanism."""
    changes = []
    for mechanism in SCRAM_MECHANISMS.values():
        salt = f"salt of {name}".encode()
        salted = scram_keys.salted_password(mechanism.hash_name, password, salt, ITERATIONS)
        changes.append(Upsertion(name, mechanism, ITERATIONS, salt, salted))
    secret = node.world.entropy.token(64)
    (outcome,) = await node.commands.submit(lambda image: alter_scram_credentials(image, changes, secret))
    assert outcome.result is None, outcome


async def remove_user(node: Node, name: str, mechanism: ScramMechanism) -> None:
    secret = node.world.entropy.token(64)
    gone = [Deletion(name, mechanism)]
    (outcome,) = await node.commands.submit(lambda image: alter_scram_credentials(image, gone, secret))
    assert outcome.result is None, outcome


def with_passwords(
    mechanisms: tuple[str, ...] = SCRAM, *, held: Held | None = None, issuer: Issuer | None = None, **changes: Any
) -> Callable[[Node], ListenerAccess]:
    """A listener on which users of the node log in; with a certificate it speaks TLS."""
    protocol = SecurityProtocol.SASL_PLAINTEXT if held is None else SecurityProtocol.SASL_SSL
    tls = None if held is None else ServerTls(held.settings())
    plain = ListenerAccess(
        ListenerSecurity(protocol.value, protocol, mechanisms), tls, tokens=None if issuer is None else issuer.check
    )
    return lambda node: replace(plain, users=ClusterUsers(node.view, SystemEntropy()), **changes)


def with_certificates(
    held: Held, client_auth: ClientAuth = ClientAuth.REQUIRED, **changes: Any
) -> Callable[[Node], ListenerAccess]:
    """A listener that knows its clients by the certificates of the same authority."""
    tls = ServerTls(held.settings(), client_auth=_VERIFY[client_auth])
    security = ListenerSecurity("SSL", SecurityProtocol.SSL, client_auth=client_auth)
    return lambda _: ListenerAccess(security, tls, **changes)
