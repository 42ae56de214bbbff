"""Kafka's `server.properties`, as a node of ours understands it.

What it says of the node's place (its number, listeners, directory, the others) becomes what the flags of `serve` say;
settings that are known stay settings; what means nothing here is named with the reason. What would change a promise,
or cannot be kept, is refused: who asks for passwords must not get a node without.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.serve.java_properties import NotProperties, read_properties
from headrace.cli.serve.kafka_settings import reason_against, reason_without
from headrace.client.connections.view import parse_address
from headrace.metadata.configs.node_configs import IDENTITY_CONFIGS, NODE_CONFIGS
from headrace.model.errors import Refusal
from headrace.model.names import NODE_ID_MAX, NodeId
from headrace.runtime.network import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what an empty host stands for in Kafka's listeners
PLAINTEXT = "PLAINTEXT"
_LISTENER = re.compile(r"([A-Za-z0-9._-]+)://(\[[^\]]*\]|[^:/]*):(-?\d+)")
_OF_THE_PLACE = {
    *(key.name for key in IDENTITY_CONFIGS),
    *("broker.id", "log.dir", "process.roles", "controller.listener.names", "listener.security.protocol.map"),
    *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.quorum.auto.join.enable"),
}
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class UnusableProperties(ValueError):
    """The file asks for what a node here cannot do. The text says where, and what to do."""


class Listener(NamedTuple):
    name: str
    at: Address


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """What the file says. None, or nothing, where it does not."""

    node_id: int | None = None
    data_dir: Path | None = None
    listen: Address | None = None
    advertised: Address | None = None
    cluster_listen: Address | None = None
    voters: dict[NodeId, Address] = field(default_factory=dict)
    join: tuple[Address, ...] = ()
    rack: str | None = None
    configs: dict[str, str] = field(default_factory=dict)
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
        told = self._told(clients)
        voters, join = self._others(node_id, nodes)
        return ServerProperties(
            node_id=node_id,
            data_dir=self._data_dir(),
            listen=None if clients is None else clients.at,
            advertised=told,
            cluster_listen=None if nodes is None else nodes.at,
            voters=voters,
            join=join,
            rack=self._texts.get("broker.rack") or None,
            configs=configs,
            notes=tuple(self._notes),
        )

    # ---- settings

    def _settings(self) -> Iterator[tuple[str, str]]:
        for name, text in self._texts.items():
            if name in _OF_THE_PLACE:
                continue
            if name in NODE_CONFIGS:
                self._check(name, text)
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

    def _check(self, name: str, text: str) -> None:
        try:
            NODE_CONFIGS[name].parse(text)
        except Refusal as refusal:
            raise UnusableProperties(f"line {self._lines[name]}: {refusal.message}") from refusal

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

    def _listeners(self) -> tuple[Listener | None, Listener | None]:
        """Where other nodes come in, and where clients do."""
        found = [self._listener("listeners", text) for text in self._several("listeners")]
        for listener in found:
            self._expect_plain(listener)
        own = set(self._several("controller.listener.names")[:1])
        nodes = [listener for listener in found if listener.name in own]
        clients = [listener for listener in found if listener.name not in own]
        if len(clients) > 1:
            names = " and ".join(listener.name for listener in clients)
            raise self._wrong("listeners", f"{names} are both for clients, and a node has one such listener: name one")
        return (nodes[0] if nodes else None), (clients[0] if clients else None)

    def _listener(self, setting: str, text: str) -> Listener:
        parts = _LISTENER.fullmatch(text)
        if parts is None:
            raise self._wrong(setting, f"{text!r} is no listener; expected NAME://host:port")
        name, host, port = parts.groups()
        try:
            return Listener(name.upper(), parse_address(f"{host or EVERYWHERE}:{port}", port_min=0))
        except ValueError as wrong:
            raise self._wrong(setting, str(wrong)) from wrong

    def _expect_plain(self, listener: Listener) -> None:
        setting = "listener.security.protocol.map"
        protocols = dict(self._pair(setting, text) for text in self._several(setting))
        protocol = protocols.get(listener.name, listener.name if setting not in self._texts else "")
        if setting not in self._texts and listener.name in self._several("controller.listener.names"):
            protocol = PLAINTEXT  # Kafka takes that for controllers, where the map says nothing
        if protocol != PLAINTEXT:
            said = (
                f"listener {listener.name} speaks {protocol}"
                if protocol
                else f"{setting} does not name {listener.name}"
            )
            raise self._wrong("listeners", f"{said}, and there is no authentication or encryption yet: use {PLAINTEXT}")

    def _pair(self, setting: str, text: str) -> tuple[str, str]:
        name, colon, protocol = text.partition(":")
        if not colon:
            raise self._wrong(setting, f"{text!r} is no pair; expected NAME:PROTOCOL")
        return name.strip().upper(), protocol.strip().upper()

    def _told(self, clients: Listener | None) -> Address | None:
        """Where clients are told to look. Without a word on it Kafka tells them this machine's name."""
        found = {listener.name: listener.at for listener in self._advertised()}
        if clients is None:
            return None
        if clients.name in found:
            return found[clients.name]
        if clients.at.host != EVERYWHERE:
            return clients.at
        told = Address(socket.getfqdn(), clients.at.port)
        self._notes.append(f"advertised.listeners does not name {clients.name}: clients are told to look at {told}")
        return told

    def _advertised(self) -> list[Listener]:
        return [self._listener("advertised.listeners", text) for text in self._several("advertised.listeners")]

    # ---- the other nodes

    def _others(self, node_id: int | None, nodes: Listener | None) -> tuple[dict[NodeId, Address], tuple[Address, ...]]:
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
        self, node_id: int | None, nodes: Listener | None, known: tuple[Address, ...]
    ) -> tuple[dict[NodeId, Address], tuple[Address, ...]]:
        """Kafka is told who founds the cluster when its directory is formatted; here the file has to say it."""
        own = [address for address in known if nodes is not None and self._is_own(address, nodes)]
        if not own:
            return {}, known
        if len(known) > 1:
            why = "here the file says who founds a cluster: name all of them in controller.quorum.voters=ID@host:port,…"
            raise self._wrong("controller.quorum.bootstrap.servers", f"{why} in place of it")
        return {NodeId(1 if node_id is None else node_id): own[0]}, ()

    def _is_own(self, address: Address, nodes: Listener) -> bool:
        told = [listener.at for listener in self._advertised() if listener.name == nodes.name]
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
