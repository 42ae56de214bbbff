"""Where a node listens, and where others are told to look for it: what makes no sense is said before it starts."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from headrace.broker.listeners.exposure import complaint, exposed, unencrypted
from headrace.broker.listeners.plans import UNSPECIFIED, ListenerPlans, is_findable
from headrace.broker.membership.identity import IDENTITY_FILE, NEW_NODE_ID
from headrace.model.names import NodeId

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.network import Address
    from headrace.servers.console.server import ConsoleServer
    from headrace.servers.kafka.server import KafkaServer


log = logging.getLogger("headrace")


@dataclass(frozen=True)
class ServeOptions:
    data_dir: Path
    listeners: ListenerPlans
    http: Address | None
    node_id: int | None = None
    voters: dict[NodeId, Address] = field(default_factory=dict)
    join: tuple[Address, ...] = ()
    rack: str | None = None
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    """They may hold secrets."""

    def cluster_address(self, node_id: NodeId) -> Address | None:
        """Where this node listens for the others."""
        return self.listeners.nodes_at or self.voters.get(node_id)

    def told_address(self, node_id: NodeId, bound: Address) -> Address:
        """Where the others find it, if it listens at `bound`."""
        return self.voters.get(node_id) or self.listeners.nodes_told or bound


class CannotStart(Exception):
    """The reason, in words for the person at the terminal."""


async def expect_addresses(options: ServeOptions) -> None:
    """Before anything is written: a first start that fails must not leave a cluster of its own behind."""
    addresses = _addresses_of(options)
    _expect_apart(addresses)
    expect_guarded(options, addresses.get("--cluster-listen"))
    _tell_of_open_lines(options, addresses.get("--cluster-listen"))
    for option, address in addresses.items():
        await _expect_free(address, option)


def _addresses_of(options: ServeOptions) -> dict[str, Address]:
    """Where this node will listen, as far as that is known before its directory is opened. Raises CannotStart if it
    makes no sense there."""
    first, *others = options.listeners.clients
    addresses = {"--listen": first.at, **{f"the listener {it.name}": it.at for it in others}}
    if options.http is not None:
        addresses["--http"] = options.http
    own = options.listeners.nodes_at
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


def expect_guarded(options: ServeOptions, nodes_at: Address | None) -> None:
    """Nothing is open to others by accident. Where nodes come in may hang on whose the data directory is."""
    found = exposed(options.listeners, nodes_at, options.http)
    if found and not options.listeners.is_insecure:
        raise CannotStart(complaint(found))


def _tell_of_open_lines(options: ServeOptions, nodes_at: Address | None) -> None:
    for listener in exposed(options.listeners, nodes_at, options.http):
        log.warning("open to others, as was asked for: %s", listener)
    for listener in unencrypted(options.listeners, nodes_at):
        log.warning("%s", listener)


def expect_founder(options: ServeOptions, node_id: NodeId) -> None:
    if options.voters and node_id not in options.voters:
        raise CannotStart(
            f"--voters does not name node {node_id}: only those that it names start a cluster; "
            "name it there, or enter their cluster with --join"
        )


def expect_to_be_found(options: ServeOptions, node_id: NodeId, own: Address) -> None:
    """By other nodes, and by the clients that they send here."""
    told = options.told_address(node_id, own)
    if told.host in UNSPECIFIED:
        raise CannotStart(
            f"other nodes cannot find this one at {told}: give --cluster-listen an address of this machine that they "
            "can reach"
        )
    for listener in options.listeners.clients:
        if not is_findable(listener.advertised):
            raise CannotStart(
                f"other nodes tell clients where this one is, and nobody finds it at {listener.advertised}: add "
                "--advertise"
            )


def _expect_apart(addresses: dict[str, Address]) -> None:
    for (option, one), (other_option, other) in combinations(addresses.items(), 2):
        is_shared = one.host == other.host or not UNSPECIFIED.isdisjoint((one.host, other.host))
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


async def listen(server: KafkaServer | ConsoleServer, address: Address, option: str) -> Address:
    try:
        return await server.start(address)
    except OSError as error:
        raise _cannot_listen(address, option, error) from error


def _cannot_listen(address: Address, option: str, error: OSError) -> CannotStart:
    is_taken = error.errno == errno.EADDRINUSE
    question = " is another node running there? Choose" if is_taken else " choose"
    return CannotStart(f"cannot listen on {address}: {error.strerror or error};{question} another with {option}")
