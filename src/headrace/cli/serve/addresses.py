"""Where a node listens, and where others are told to look for it: what makes no sense is said before it starts."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from headrace.broker.membership.identity import IDENTITY_FILE, NEW_NODE_ID
from headrace.model.names import NodeId

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.network import Address
    from headrace.servers.console.server import ConsoleServer
    from headrace.servers.kafka.server import KafkaServer

EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 - nobody is told to look there


@dataclass(frozen=True)
class ServeOptions:
    data_dir: Path
    listen: Address
    http: Address | None
    advertised: Address | None = None
    node_id: int | None = None
    cluster_listen: Address | None = None
    voters: dict[NodeId, Address] = field(default_factory=dict)
    join: tuple[Address, ...] = ()
    rack: str | None = None
    configs: dict[str, str] = field(default_factory=dict)

    def cluster_address(self, node_id: NodeId) -> Address | None:
        """Where this node listens for the others."""
        return self.cluster_listen or self.voters.get(node_id)

    @property
    def client_address(self) -> Address:
        """Where clients are told to look for this node."""
        return self.advertised or self.listen


class CannotStart(Exception):
    """The reason, in words for the person at the terminal."""


async def expect_addresses(options: ServeOptions) -> None:
    """Before anything is written: a first start that fails must not leave a cluster of its own behind."""
    addresses = _addresses_of(options)
    _expect_apart(addresses)
    for option, address in addresses.items():
        await _expect_free(address, option)


def _addresses_of(options: ServeOptions) -> dict[str, Address]:
    """Where this node will listen, as far as that is known before its directory is opened. Raises CannotStart if it
    makes no sense there."""
    addresses = {"--listen": options.listen}
    if options.http is not None:
        addresses["--http"] = options.http
    own = options.cluster_listen
    is_new = not os.path.exists(options.data_dir / IDENTITY_FILE)
    if is_new or options.node_id is not None:  # otherwise the directory says who this node is
        node_id = NEW_NODE_ID if options.node_id is None else NodeId(options.node_id)
        if is_new:
            expect_founder(options, node_id)
        own = options.cluster_address(node_id)
        if own is not None:
            expect_to_be_found(options, node_id, own)
    if own is not None:
        addresses["--cluster-listen"] = own
    return addresses


def expect_founder(options: ServeOptions, node_id: NodeId) -> None:
    if options.voters and node_id not in options.voters:
        raise CannotStart(
            f"--voters does not name node {node_id}: only those that it names start a cluster; "
            "name it there, or enter their cluster with --join"
        )


def expect_to_be_found(options: ServeOptions, node_id: NodeId, own: Address) -> None:
    """By other nodes, and by the clients that they send here."""
    told = options.voters.get(node_id, own)
    if told.host in EVERYWHERE:
        raise CannotStart(
            f"other nodes cannot find this one at {told}: give --cluster-listen an address of this machine that they "
            "can reach"
        )
    clients = options.client_address
    if not clients.port or clients.host in EVERYWHERE:
        raise CannotStart(
            f"other nodes tell clients where this one is, and nobody finds it at {clients}: add --advertise"
        )


def _expect_apart(addresses: dict[str, Address]) -> None:
    for (option, one), (other_option, other) in combinations(addresses.items(), 2):
        is_shared = one.host == other.host or not EVERYWHERE.isdisjoint((one.host, other.host))
        if one.port and one.port == other.port and is_shared:
            raise CannotStart(
                f"{option} and {other_option} are both {other}: clients, other nodes (--cluster-listen, or this node's "
                "place in --voters) and health checks each need a port of their own"
            )


async def _expect_free(address: Address, option: str) -> None:
    """Take the place for a moment, without listening there."""
    loop = asyncio.get_running_loop()
    try:
        taken = await loop.create_server(
            asyncio.Protocol, address.host, address.port, reuse_address=True, start_serving=False
        )
    except OSError as error:
        raise _cannot_listen(address, option, error) from error
    taken.close()


def listener_configs(options: ServeOptions) -> dict[str, str]:
    address = options.client_address
    is_known = address.port and address.host not in EVERYWHERE  # else clients are told the address that they dialled
    advertised = {"advertised.listeners": f"PLAINTEXT://{address}"} if is_known else {}
    return {"listeners": f"PLAINTEXT://{options.listen}", **advertised}


async def listen(server: KafkaServer | ConsoleServer, address: Address, option: str) -> Address:
    try:
        return await server.start(address)
    except OSError as error:
        raise _cannot_listen(address, option, error) from error


def _cannot_listen(address: Address, option: str, error: OSError) -> CannotStart:
    is_taken = error.errno == errno.EADDRINUSE
    question = " is another node running there? Choose" if is_taken else " choose"
    return CannotStart(f"cannot listen on {address}: {error.strerror or error};{question} another with {option}")
