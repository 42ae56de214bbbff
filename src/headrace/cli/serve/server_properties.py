"""Kafka's `server.properties`, as a node of ours understands it.

What it says of the node's place (its number, listeners, directory, the others) becomes what the flags of `serve` say;
settings that are known stay settings; what means nothing here is named with the reason. What would change a promise,
or cannot be kept, is refused: who asks for passwords must not get a node without.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.access.listeners import SecurityProtocol
from headrace.broker.listeners.places import EVERYWHERE, Place, UnusableListeners, places_of, protocols_of
from headrace.broker.membership.local_node import NODES
from headrace.cli.serve.java_properties import NotProperties, read_properties
from headrace.cli.serve.kafka_settings import reason_against, reason_without
from headrace.client.connections.view import parse_address
from headrace.metadata.configs.listener_configs import own_config_key
from headrace.metadata.configs.node_configs import IDENTITY_CONFIGS, NODE_CONFIGS
from headrace.model.errors import Refusal
from headrace.model.names import NODE_ID_MAX, NodeId
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.metadata.configs.config_keys import ConfigKey

PROTOCOLS = "listener.security.protocol.map"
_OF_THE_PLACE = {
    *(key.name for key in IDENTITY_CONFIGS),
    *("broker.id", "log.dir", "process.roles"),
    *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.quorum.auto.join.enable"),
}
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class UnusableProperties(ValueError):
    """The file asks for what a node here cannot do. The text says where, and what to do."""


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """What the file says. None, or nothing, where it does not."""

    node_id: int | None = None
    data_dir: Path | None = None
    voters: dict[NodeId, Address] = field(default_factory=dict)
    join: tuple[Address, ...] = ()
    rack: str | None = None
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    """They may hold secrets."""
    lines: dict[str, int] = field(default_factory=dict)
    """Where each setting stands."""
    notes: tuple[str, ...] = ()


def parse_server_properties(content: bytes) -> ServerProperties:
    """Raises NotProperties or UnusableProperties."""
    return _Reading(content).meaning()


class _Reading:
    def __init__(self, content: bytes) -> None:
        self._texts: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._notes: list[str] = []
        for line, name, text in read_properties(content):
            if name in self._texts:
                self._notes.append(f"line {self._lines[name]}: {name} is set again in line {line}, and that counts")
            self._texts[name], self._lines[name] = text.strip(), line

    def meaning(self) -> ServerProperties:
        configs = dict(self._settings())
        node_id = self._node_id()
        nodes, clients = self._listeners()
        configs |= self._told(clients)
        self._expect_tls_between_nodes(nodes)
        voters, join = self._others(node_id, nodes)
        return ServerProperties(
            node_id=node_id,
            data_dir=self._data_dir(),
            voters=voters,
            join=join,
            rack=self._texts.get("broker.rack") or None,
            configs=configs,
            lines=dict(self._lines),
            notes=tuple(self._notes),
        )

    # ---- settings

    def _settings(self) -> Iterator[tuple[str, str]]:
        for name, text in self._texts.items():
            if name in _OF_THE_PLACE:
                continue
            key = NODE_CONFIGS.get(name) or own_config_key(name)
            if key is not None:
                self._check(key, text)
                if text or key.default:  # else an empty text asks for nothing
                    yield name, text
            elif (why := reason_against(name, text)) and not self._is_log_dir(name):
                raise self._wrong(name, why)
            else:
                self._note(name, reason_without(name) or "no setting of Kafka or of Headrace has this name")

    def _is_log_dir(self, name: str) -> bool:
        """Metadata in a directory of its own is what there is not; in the one that there is, it is as it should be."""
        return name == "metadata.log.dir" and self._texts[name] in {
            self._texts.get("log.dirs"),
            self._texts.get("log.dir"),
        }

    def _check(self, key: ConfigKey, text: str) -> None:
        try:
            key.parse(text)
        except Refusal as refusal:
            raise UnusableProperties(f"line {self._lines[key.name]}: {refusal.message}") from refusal

    # ---- the node's place

    def _node_id(self) -> int | None:
        number, older = self._texts.get("node.id"), self._texts.get("broker.id")
        if number and older and number != older:
            raise self._wrong("broker.id", f"and node.id is {number}: they mean the same, so take one out")
        text = number or older
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or int(text) > NODE_ID_MAX:
            raise self._wrong("node.id" if number else "broker.id", f"a node id goes from 0 to {NODE_ID_MAX}")
        return int(text)

    def _data_dir(self) -> Path | None:
        name = "log.dirs" if self._texts.get("log.dirs") else "log.dir"
        directories = self._several(name)
        if len(directories) > 1:
            why = "a node keeps everything in one directory: name one, on a volume that spans the disks, or run a node"
            raise self._wrong(name, f"{why} for each disk")
        return Path(directories[0]) if directories else None

    def _listeners(self) -> tuple[Place | None, list[Place]]:
        """Where other nodes come in, and where clients do."""
        found = self._places("listeners")
        own = [name.upper() for name in self._several("controller.listener.names")] or [NODES]
        nodes = [place for place in found if place.name in own]
        return (nodes[0] if nodes else None), [place for place in found if place.name not in own]

    def _expect_tls_between_nodes(self, nodes: Place | None) -> None:
        """Kafka's brokers copy records where these settings say; nodes here do everything at the one for nodes."""
        protocols = self._protocols()
        setting = "inter.broker.listener.name"
        wanted = protocols.get(self._texts.get(setting, "").upper())
        if wanted is None:
            setting = "security.inter.broker.protocol"
            wanted = SecurityProtocol.__members__.get(self._texts.get(setting, "").upper())
        if nodes is None or wanted is None or not wanted.has_tls:
            return
        if not protocols.get(nodes.name, SecurityProtocol.PLAINTEXT).has_tls:
            why = f"nodes meet at {nodes.name}, which speaks no TLS: say {nodes.name}:SSL in {PROTOCOLS}"
            raise self._wrong(setting, f"{why}, and take this out")

    def _protocols(self) -> dict[str, SecurityProtocol]:
        try:
            said = self._texts.get(PROTOCOLS)
            return dict(SecurityProtocol.__members__) if said is None else protocols_of(said, PROTOCOLS)
        except UnusableListeners as wrong:
            raise self._wrong(PROTOCOLS, wrong.why) from wrong

    def _places(self, setting: str) -> list[Place]:
        try:
            return places_of(self._texts.get(setting, ""), setting)
        except UnusableListeners as wrong:
            raise self._wrong(setting, wrong.why) from wrong

    def _told(self, clients: list[Place]) -> dict[str, str]:
        """Where clients are told to look. Without a word on it Kafka tells them this machine's name."""
        setting = "advertised.listeners"
        told = self._places(setting)
        untold = [
            place for place in clients if place.at.host == EVERYWHERE and place.name not in {it.name for it in told}
        ]
        if not untold:
            return {}
        here = [Place(place.name, Address(socket.getfqdn(), place.at.port)) for place in untold]
        for place in here:
            self._notes.append(f"{setting} does not name {place.name}: clients are told to look at {place.at}")
        return {setting: ",".join(f"{place.name}://{place.at}" for place in (*told, *here))}

    # ---- the other nodes

    def _others(self, node_id: int | None, nodes: Place | None) -> tuple[dict[NodeId, Address], tuple[Address, ...]]:
        """Whom it founds a cluster with, or where it enters one."""
        roles = set(self._several("process.roles"))
        if roles == {"controller"}:
            why = "a node here is broker and controller in one: set process.roles=broker,controller, and move what the"
            raise self._wrong("process.roles", f"{why} broker's file says here")
        if not roles <= {"broker", "controller"}:
            raise self._wrong("process.roles", "expected broker,controller")
        voters = dict(self._voter(text) for text in self._several("controller.quorum.voters"))
        known = tuple(
            self._address("controller.quorum.bootstrap.servers", text)
            for text in self._several("controller.quorum.bootstrap.servers")
        )
        if roles == {"broker"}:
            return {}, known or tuple(voters.values())
        if voters or not known:
            return voters, ()
        return self._dynamic(node_id, nodes, known)

    def _dynamic(
        self, node_id: int | None, nodes: Place | None, known: tuple[Address, ...]
    ) -> tuple[dict[NodeId, Address], tuple[Address, ...]]:
        """Kafka is told who founds the cluster when its directory is formatted; here the file has to say it."""
        own = [address for address in known if nodes is not None and self._is_own(address, nodes)]
        if not own:
            return {}, known
        if len(known) > 1:
            why = "here the file says who founds a cluster: name all of them in controller.quorum.voters=ID@host:port,…"
            raise self._wrong("controller.quorum.bootstrap.servers", f"{why} in place of it")
        return {NodeId(1 if node_id is None else node_id): own[0]}, ()

    def _is_own(self, address: Address, nodes: Place) -> bool:
        told = [place.at for place in self._places("advertised.listeners") if place.name == nodes.name]
        if address in {nodes.at, *told}:
            return True
        here = {*_THIS_MACHINE, socket.gethostname(), socket.getfqdn()}
        return nodes.at.host in {EVERYWHERE, *here} and address.port == nodes.at.port and address.host in here

    def _voter(self, text: str) -> tuple[NodeId, Address]:
        setting = "controller.quorum.voters"
        number, sign, at = text.partition("@")
        if not sign or not number.isdigit() or int(number) > NODE_ID_MAX:
            raise self._wrong(setting, f"{text!r} is no voter; expected id@host:port")
        return NodeId(int(number)), self._address(setting, at.rpartition("@")[2])

    def _address(self, setting: str, text: str) -> Address:
        try:
            return parse_address(text)
        except ValueError as wrong:
            raise self._wrong(setting, str(wrong)) from wrong

    # ---- words

    def _several(self, name: str) -> list[str]:
        return [part.strip() for part in self._texts.get(name, "").split(",") if part.strip()]

    def _note(self, name: str, why: str) -> None:
        self._notes.append(f"line {self._lines[name]}: {name} does nothing: {why}")

    def _wrong(self, name: str, why: str) -> UnusableProperties:
        text = self._texts[name]
        return UnusableProperties(f"line {self._lines[name]}: {name}={text[:100]}: {why}")


__all__ = ["NotProperties", "ServerProperties", "UnusableProperties", "parse_server_properties"]
