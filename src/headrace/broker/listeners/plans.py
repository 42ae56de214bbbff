"""From a node's settings to its listeners: a function of texts, which opens nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.listeners import OPEN_LISTENER, ListenerSecurity, SecurityProtocol
from headrace.broker.listeners import protection
from headrace.broker.listeners.own_settings import OwnSettings
from headrace.broker.listeners.places import EVERYWHERE, Place, UnusableListeners, address_of, places_of, protocols_of
from headrace.broker.membership.local_node import CLIENTS, NODES
from headrace.metadata.configs.config_keys import split_list
from headrace.metadata.configs.listener_configs import PREFIX, own_name
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.broker.listeners.protection import Protection

HTTP: Final = "HTTP"
USUAL_PLACE: Final = Address("127.0.0.1", 9092)
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOLS: Final = "listener.security.protocol.map"
NAMES_OF_NODES: Final = "controller.listener.names"
UNSPECIFIED: Final = {EVERYWHERE, "::"}
"""Where one can listen, and where nobody is told to look."""

_ABOUT_TLS: Final = (
    *("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.certificate.location", "ssl.keystore.key"),
    *("ssl.key.location", "ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location"),
)
_ABOUT_LOGINS: Final = ("sasl.enabled.mechanisms", "sasl.oauthbearer.jwks.endpoint.url")


@dataclass(frozen=True, slots=True)
class ToldPlaces:
    """What flags say, which win over settings: host:port, or NAME://host:port, several with commas between."""

    listen: str = ""
    """`--listen`"""
    advertise: str = ""
    """`--advertise`"""
    cluster_listen: str = ""
    """`--cluster-listen`"""


class ClientListener(NamedTuple):
    protection: Protection
    at: Address
    told: Address | None
    """Where clients are told to look. None: nothing says it, and they are told the address that they dialled."""

    @property
    def name(self) -> str:
        return self.protection.security.name

    @property
    def advertised(self) -> Address:
        """Where other nodes tell clients to look: they do not know what clients dialled."""
        return self.told or self.at


@dataclass(frozen=True, slots=True)
class ListenerPlans:
    clients: tuple[ClientListener, ...] = (ClientListener(protection.Protection(OPEN_LISTENER), USUAL_PLACE, None),)
    nodes: Protection = field(
        default_factory=lambda: protection.Protection(ListenerSecurity(NODES, SecurityProtocol.PLAINTEXT))
    )
    nodes_at: Address | None = None
    """None: where the list of voters says, or nowhere."""
    nodes_told: Address | None = None
    """Where other nodes are told to look, if that is elsewhere."""
    http: Protection = field(
        default_factory=lambda: protection.Protection(ListenerSecurity(HTTP, SecurityProtocol.PLAINTEXT))
    )
    is_insecure: bool = False
    """Whether somebody has said that listeners may be open to others."""

    @property
    def knows_its_clients(self) -> bool:
        """Whether any listener asks who its clients are."""
        return any(listener.protection.security.knows_its_clients for listener in self.clients)

    def described(self) -> dict[str, str]:
        """As settings, for tools that ask a node where it listens."""
        at = [*((it.name, it.at) for it in self.clients), *([(NODES, self.nodes_at)] if self.nodes_at else [])]
        told = [(it.name, it.advertised) for it in self.clients if is_findable(it.advertised)]
        advertised = {ADVERTISED: _listed(told)} if told else {}
        return {LISTENERS: _listed(at), **advertised}


def is_findable(address: Address) -> bool:
    return bool(address.port) and address.host not in UNSPECIFIED


def planned(configs: Mapping[str, str], told: ToldPlaces = ToldPlaces()) -> ListenerPlans:  # noqa: B008 - frozen
    """Raises UnusableListeners, a ValueError that names the setting."""
    places = _Places(configs, told)
    protocols = _protocols(configs)
    of_all = OwnSettings(configs, "")
    nodes_name = places.name_of_nodes
    nodes = protection.of_nodes(
        OwnSettings(configs, nodes_name), _protocol(protocols, nodes_name, SecurityProtocol.PLAINTEXT)
    )
    http = protection.of_http(OwnSettings(configs, HTTP), _protocol(protocols, HTTP, SecurityProtocol.PLAINTEXT))
    clients = tuple(
        ClientListener(
            protection.of_clients(OwnSettings(configs, it.name), _protocol(protocols, it.name)), it.at, places.told(it)
        )
        for it in places.clients
    )
    everyone = (*(it.protection for it in clients), nodes, http)
    _expect_meant(configs, everyone)
    _expect_own_authority(nodes, (it.protection for it in clients), OwnSettings(configs, nodes_name))
    return ListenerPlans(
        clients, nodes, places.nodes_at, places.nodes_told, http, is_insecure=of_all.value("headrace.insecure")
    )


class _Places:
    """Where listeners are: settings say it, and flags may say otherwise."""

    def __init__(self, configs: Mapping[str, str], told: ToldPlaces) -> None:
        found = places_of(configs.get(LISTENERS, ""), LISTENERS)
        names = [name.upper() for name in split_list(configs.get(NAMES_OF_NODES, NODES))]
        nodes = [place for place in found if place.name in names]
        if len(nodes) > 1:
            both = " and ".join(place.name for place in nodes)
            raise UnusableListeners(LISTENERS, f"{both} are both for nodes ({NAMES_OF_NODES}): one is enough")
        self.name_of_nodes = nodes[0].name if nodes else (names or [NODES])[0]
        self.nodes_at = nodes[0].at if nodes else None
        if told.cluster_listen:
            self.nodes_at = self._told_of_nodes(told.cluster_listen)
        self.clients = self._clients([place for place in found if place.name not in names], told.listen)
        for place in self.clients:
            if place.name in {*names, NODES, HTTP}:
                raise UnusableListeners(LISTENERS, f"{place.name} is not a name for a listener of clients")
        self._advertised = self._all_advertised(configs, names, told.advertise)
        told_of_nodes = [self._advertised[name] for name in names if name in self._advertised]
        self.nodes_told = told_of_nodes[0] if told_of_nodes and is_findable(told_of_nodes[0]) else None

    def told(self, place: Place) -> Address | None:
        return self._advertised.get(place.name)

    def _told_of_nodes(self, text: str) -> Address:
        option = "--cluster-listen"
        if "://" not in text:
            return address_of(text, option)
        places = places_of(text, option)
        if [place.name for place in places] != [self.name_of_nodes]:
            raise UnusableListeners(option, f"expected host:port, or {self.name_of_nodes}://host:port")
        return places[0].at

    def _clients(self, found: list[Place], listen: str) -> list[Place]:
        if "://" in listen:
            found = places_of(listen, "--listen")
        elif listen or not found:
            name = found[0].name if found else CLIENTS
            at = address_of(listen, "--listen") if listen else USUAL_PLACE
            found = [Place(name, at), *found[1:]]
        return found

    def _all_advertised(self, configs: Mapping[str, str], nodes: list[str], advertise: str) -> dict[str, Address]:
        advertised = {place.name: place.at for place in places_of(configs.get(ADVERTISED, ""), ADVERTISED)}
        own = [place.name for place in self.clients]
        unknown = [name for name in advertised if name not in own and name not in nodes]
        if unknown:
            raise UnusableListeners(ADVERTISED, f"{unknown[0]} is none of the listeners, which are {', '.join(own)}")
        if "://" in advertise:
            advertised |= {place.name: place.at for place in places_of(advertise, "--advertise")}
        elif advertise:
            advertised[own[0]] = address_of(advertise, "--advertise")
        return advertised


def _protocols(configs: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    said = configs.get(PROTOCOLS)
    usual = {protocol.value: protocol for protocol in SecurityProtocol}
    return usual if said is None else protocols_of(said, PROTOCOLS)


def _protocol(
    protocols: Mapping[str, SecurityProtocol], name: str, otherwise: SecurityProtocol | None = None
) -> SecurityProtocol:
    found = protocols.get(name, otherwise)
    if found is None:
        raise UnusableListeners(
            PROTOCOLS, f"it does not say what {name} speaks: add {name}:SASL_SSL, or another protocol"
        )
    return found


def _expect_meant(configs: Mapping[str, str], everyone: Iterable[Protection]) -> None:
    """What protects nothing was meant to protect something."""
    listeners = list(everyone)
    names = [it.security.name for it in listeners]
    for name in configs:
        own = own_name(name)
        if own is not None and own.listener not in names:
            raise UnusableListeners(name, f"there is no listener {own.listener}; there are {', '.join(names)}")
        if own is None and name.startswith(PREFIX):
            raise UnusableListeners(name, "no setting of a listener has this name; docs/settings.md lists them")
    for settings, is_needed, what in (
        (_ABOUT_TLS, any(it.security.protocol.has_tls for it in listeners), "TLS"),
        (_ABOUT_LOGINS, any(it.security.protocol.has_sasl for it in listeners), "SASL"),
    ):
        said = next((it for it in settings if configs.get(it)), None)
        if said is not None and not is_needed:
            raise UnusableListeners(
                said,
                f"it is set, but no listener speaks {what}: name one that does in {LISTENERS} or {PROTOCOLS}, or take "
                "it out",
            )


def _expect_own_authority(nodes: Protection, clients: Iterable[Protection], own: OwnSettings) -> None:
    """Where clients have certificates of the same CA as nodes, a name has to tell them apart."""
    if nodes.tls is None or nodes.secret is not None or nodes.rules_text.strip() not in {"", "DEFAULT"}:
        return
    for client in clients:
        if (
            client.tls is not None
            and client.security.client_auth.value != "none"
            and client.tls.trusted == nodes.tls.trusted
        ):
            raise UnusableListeners(
                own.name_of(protection.RULES),
                f"clients of {client.security.name} have certificates of the same CA as nodes, so any of them could be "
                f"a node: set {PREFIX}{own.listener.lower()}.{protection.RULES} to a rule that only nodes' names fit",
            )


def _listed(places: Iterable[tuple[str, Address]]) -> str:
    return ",".join(f"{name}://{at}" for name, at in places)


__all__ = ["ClientListener", "ListenerPlans", "ToldPlaces", "UnusableListeners", "is_findable", "planned"]
