"""What a listener and its callers need once they run: keys that are read, secrets that are made to be checked."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from headrace.access.authentication.credentials import (
    ITERATIONS_MIN,
    USUAL_SALT_BYTES,
    ScramMechanism,
    ScramUser,
    verifier_for,
)
from headrace.access.authentication.known_users import SECRET_BYTES, KnownUsers
from headrace.access.listeners import ClientAuth
from headrace.broker.access.listener_access import ListenerAccess, NoUsers
from headrace.broker.listeners.reach import everybody_may_read
from headrace.broker.membership.dialing import NodeProof
from headrace.client.security.credentials import PasswordCredentials
from headrace.runtime.tls.contexts import ClientTls, ServerTls
from headrace.runtime.tls.settings import UnusableTls

if TYPE_CHECKING:
    from headrace.broker.access.listener_access import TokenCheck
    from headrace.broker.access.users import UserSource
    from headrace.broker.listeners.plans import ClientListener, ListenerPlans
    from headrace.broker.listeners.protection import Protection
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.network import PeerCertificate

NODE: Final = "node"
"""Who logs in at the listener for nodes, and nowhere else: no user of the cluster is meant."""
SHOWN_MAX: Final = 200  # characters of a stranger's name in the log
_MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class Doors:
    """What the listeners of one node show and ask for. Files are read when it is made, before anything is opened."""

    def __init__(self, plans: ListenerPlans, entropy: Entropy) -> None:
        """Raises UnusableTls (a ValueError)."""
        if not plans.is_insecure:
            for each in (*(listener.protection for listener in plans.clients), plans.nodes, plans.http):
                _expect_kept(each)
        self._tls = {listener.name: server_tls(listener.protection) for listener in plans.clients}
        self.nodes = node_access(plans.nodes, entropy)
        """Where other nodes call."""
        self.proof = node_proof(plans.nodes)
        """What this node shows when it calls others."""
        self.http = server_tls(plans.http)
        if self.http is not None:  # elsewhere a connection looks at the name, and notes who was not let in
            self.http.problem_with = _Names(plans.http)
        """None: plain HTTP."""

    def access(self, listener: ClientListener, users: UserSource, tokens: TokenCheck | None = None) -> ListenerAccess:
        """Of a listener of clients; once there is a node that knows users."""
        protection = listener.protection
        return ListenerAccess(
            protection.security,
            self._tls[listener.name],
            users if protection.security.protocol.has_sasl else NoUsers(),
            tokens,
            protection.name_rules,
            protection.session_max_s,
            protection.failure_delay_s,
            limits=protection.limits,
        )


def node_access(protection: Protection, entropy: Entropy) -> ListenerAccess:
    """For the listener where nodes meet. Raises UnusableTls."""
    users = NoUsers() if protection.secret is None else NodesAlone(protection.secret, entropy)
    return ListenerAccess(protection.security, server_tls(protection), users, name_rules=protection.name_rules)


def node_proof(protection: Protection) -> NodeProof:
    """How a node shows the others that it is one, and sees that they are. Raises UnusableTls."""
    tls = None
    if protection.tls is not None:
        tls = ClientTls(protection.tls, expects_host=protection.expects_host, problem_with=_Names(protection))
    credentials = None
    if protection.secret is not None:
        credentials = PasswordCredentials(_MECHANISM.sasl_name, NODE, protection.secret)
    return NodeProof(tls, credentials)


def server_tls(protection: Protection) -> ServerTls | None:
    """Raises UnusableTls."""
    if protection.tls is None:
        return None
    return ServerTls(protection.tls, client_auth=_VERIFY[protection.security.client_auth])


class NodesAlone:
    """Who can log in at the listener for nodes: whoever has the cluster's secret."""

    def __init__(self, secret: str, entropy: Entropy) -> None:
        salt = entropy.token(USUAL_SALT_BYTES)
        verifier = verifier_for(secret, _MECHANISM, salt, ITERATIONS_MIN)  # once, before the node serves anybody
        self.known = KnownUsers({ScramUser(NODE, _MECHANISM): verifier}, entropy.token(SECRET_BYTES))


class _Names:
    """Who has a valid certificate is known by its name. One that fits no rule is nobody's."""

    def __init__(self, protection: Protection) -> None:
        self._rules = protection.name_rules

    def __call__(self, certificate: PeerCertificate | None) -> str | None:
        if certificate is None or self._rules.name_of(certificate.subject) is not None:
            return None
        return (
            f"no rule of ssl.principal.mapping.rules fits its certificate's name, {certificate.subject[:SHOWN_MAX]!r}"
        )


def _expect_kept(protection: Protection) -> None:
    """Raises UnusableTls for a key or a secret that everybody on the machine can read, as ssh refuses it. A group may
    read it: which one is an operator's choice, and how containers are given theirs."""
    holder = None if protection.tls is None else protection.tls.key or protection.tls.own
    paths = (holder.path if holder is not None else None, protection.secret_path)
    for path in paths:
        if path and everybody_may_read(path):
            raise UnusableTls(f"everybody on this machine can read or change {path}, which is secret: chmod 600 {path}")
