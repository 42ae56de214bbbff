"""What one listener asks of whoever connects to it, and by what it knows them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.authentication.certificate_names import NameRules
from headrace.access.authentication.known_users import KnownUsers
from headrace.access.listeners import OPEN_LISTENER, ListenerSecurity
from headrace.runtime.tls.network import TlsNetwork
from headrace.wire.sasl import oauthbearer, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.access.authentication.exchange import Accepted, Denied
    from headrace.broker.access.users import UserSource
    from headrace.runtime.network import Network
    from headrace.runtime.tls.contexts import ServerTls

    TokenCheck = Callable[[str], Accepted | Denied]
    """Says whose a token of OAUTHBEARER is. Called in a thread."""

FAILURE_DELAY_S: Final = 0.1  # connection.failed.authentication.delay.ms
LOGIN_WITHIN_S: Final = 10.0  # a login takes milliseconds; over a slow line to a busy node, a second or two


class ConnectionLimits(NamedTuple):
    """Of one listener, beside those of the node."""

    most: int | None = None
    """At a time (listener.name.NAME.max.connections)."""
    per_second: int | None = None
    """New ones (listener.name.NAME.max.connection.creation.rate)."""


NO_LIMITS: Final = ConnectionLimits()


class NoUsers:
    """Where nobody has a password."""

    known = KnownUsers({}, b"")


@dataclass(frozen=True, slots=True)
class ListenerAccess:
    """Made once, before the listener starts."""

    security: ListenerSecurity = OPEN_LISTENER
    tls: ServerTls | None = None
    """Present exactly if the protocol has TLS."""
    users: UserSource = field(default_factory=NoUsers)
    """Who can log in by SCRAM and PLAIN."""
    tokens: TokenCheck | None = None
    """Present if OAUTHBEARER is among the mechanisms."""
    name_rules: NameRules = field(default_factory=NameRules)
    """What makes a certificate's name a principal (ssl.principal.mapping.rules)."""
    session_max_s: float = math.inf
    """After which somebody has to log in again (connections.max.reauth.ms)."""
    failure_delay_s: float = FAILURE_DELAY_S
    """Before somebody hears that they could not log in."""
    login_within_s: float = LOGIN_WITHIN_S
    limits: ConnectionLimits = NO_LIMITS

    def __post_init__(self) -> None:
        name, protocol = self.security.name, self.security.protocol
        assert protocol.has_tls == (self.tls is not None), f"{name} is {protocol.value}"
        assert oauthbearer.MECHANISM not in self.security.mechanisms or self.tokens is not None, (
            f"{name} has no keys for tokens"
        )
        assert protocol.has_tls or plain.MECHANISM not in self.security.mechanisms, f"{name} shows passwords to anybody"

    def network_over(self, network: Network) -> Network:
        """Where it listens."""
        return network if self.tls is None else TlsNetwork(network, server=self.tls)


OPEN: Final = ListenerAccess()
"""Everybody is served, and nobody asked who they are."""
