"""Listeners that others can reach, and that do not know who connects: a node does not open them by accident."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.listeners.reach import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.listeners.plans import ListenerPlans
    from headrace.runtime.network import Address

ADVICE = (
    "`headrace security init` makes keys, users and settings for listeners that know who connects; --insecure opens "
    "them all the same, on a network that you trust"
)


class Exposed(NamedTuple):
    name: str
    at: Address
    problem: str
    """What is missing, in words that finish a sentence."""

    def __str__(self) -> str:
        return f"{self.name} at {self.at} {self.problem}"


def exposed(plans: ListenerPlans, nodes_at: Address | None, http_at: Address | None) -> list[Exposed]:
    """Listeners that are not on loopback alone, and open to whoever reaches them."""
    found = [
        Exposed(listener.name, listener.at, "serves everybody who reaches it: it needs SASL, or client certificates")
        for listener in plans.clients
        if not is_loopback(listener.at.host) and not listener.protection.security.knows_its_clients
    ]
    if nodes_at is not None and not is_loopback(nodes_at.host) and not plans.nodes.security.knows_its_clients:
        problem = "takes everybody for a node: it needs certificates, or headrace.cluster.secret.file"
        found.append(Exposed(plans.nodes.security.name, nodes_at, problem))
    if http_at is not None and not is_loopback(http_at.host) and not plans.http.security.protocol.has_tls:
        problem = "tells everybody about the node, unencrypted: it needs HTTP:SSL in listener.security.protocol.map"
        found.append(Exposed(plans.http.security.name, http_at, problem))
    return found


def unencrypted(plans: ListenerPlans, nodes_at: Address | None) -> list[Exposed]:
    """Listeners that know who connects, and let everybody on the way read what they say."""
    places = [(listener.protection.security, listener.at) for listener in plans.clients]
    if nodes_at is not None:
        places.append((plans.nodes.security, nodes_at))
    return [
        Exposed(security.name, at, "knows who connects, but everybody on the way can read what is sent: it needs TLS")
        for security, at in places
        if security.knows_its_clients and not security.protocol.has_tls and not is_loopback(at.host)
    ]


def complaint(found: Iterable[Exposed]) -> str:
    return f"{'; '.join(map(str, found))}. {ADVICE}"
