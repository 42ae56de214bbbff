"""A node that calls another shows that it is one, and wants to see the same."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from headrace.broker.listeners.opening import Doors, node_access, node_proof
from headrace.broker.listeners.plans import planned
from headrace.broker.membership.dialing import Dialer
from headrace.client.errors import AuthenticationFailed, ConnectionLost
from headrace.model.names import NodeId
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.tasks import TaskScope
from headrace.runtime.threads import SystemThreads
from headrace.runtime.tls import contexts
from headrace.runtime.world import World
from headrace.servers.kafka.build import kafka_server
from tests.certificates import Certificates
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.broker.listeners.protection import Protection
    from tests.certificates import Held

NODES = "nodes"


def protection(held: Held, trusted: Path | None = None) -> Protection:
    """Of the listener for nodes, where this is what a node shows."""
    own = "listener.name.controller"
    return planned(
        {
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
            f"{own}.ssl.keystore.location": str(held.certificate),
            f"{own}.ssl.key.location": str(held.key),
            f"{own}.ssl.truststore.location": str(trusted or held.authority),
            f"{own}.ssl.principal.mapping.rules": f"RULE:^CN=([^,]+),OU={NODES}$/$1/",
        }
    ).nodes


@asynccontextmanager
async def meeting(home: Path, shown: Protection) -> AsyncIterator[Address]:
    """Where a node listens for others."""
    async with living_server(home) as living:
        server = kafka_server(living.node, access=node_access(shown, SystemEntropy()), is_for_nodes=True)
        living.meetings.append(server)
        yield await server.start(Address("127.0.0.1", 0))


@asynccontextmanager
async def caller(home: Path, shown: Protection) -> AsyncIterator[Dialer]:
    disk, threads = SystemDisk(home), SystemThreads()
    failures: list[object] = []
    tasks = TaskScope(lambda *failure: failures.append(failure))
    dialer = Dialer(NodeId(2), World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads), node_proof(shown))
    dialer.keep_fresh(tasks)
    try:
        yield dialer
        assert failures == []
    finally:
        await tasks.close()
        threads.close()
        disk.close()


async def test_nodes_meet_and_a_client_of_the_same_authority_passes_for_none_on_either_side(tmp_path: Path) -> None:
    authority = Certificates(tmp_path)
    node, alice = authority.issue("node-1", unit=NODES), authority.issue("alice", unit="people")
    async with (
        meeting(tmp_path / "a", protection(node)) as honest,
        meeting(tmp_path / "b", protection(alice)) as impostor,
        caller(tmp_path / "c", protection(authority.issue("node-2", unit=NODES))) as dialer,
        caller(tmp_path / "d", protection(alice)) as stranger,
    ):
        (await dialer.open(honest, request_timeout_s=20)).close()
        with pytest.raises(AuthenticationFailed, match=r"no rule of ssl\.principal\.mapping\.rules fits .*CN=alice"):
            await dialer.open(impostor, request_timeout_s=20)
        with pytest.raises((ConnectionLost, AuthenticationFailed)):
            await stranger.open(honest, request_timeout_s=20)


async def test_who_was_given_another_authority_is_known_again_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts.ServerTls.keep_fresh, "__defaults__", (0.01,))
    old, new = Certificates(tmp_path, "old"), Certificates(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.path.read_bytes())
    node, other = old.issue("node-1", unit=NODES), old.issue("node-2", unit=NODES)
    async with (
        meeting(tmp_path / "a", protection(node, trusted)) as place,
        caller(tmp_path / "c", protection(other, trusted)) as dialer,
    ):
        before = await serial_at(dialer, place)
        assert before
        new.issue("node-1", unit=NODES)
        new.issue("node-2", unit=NODES)
        trusted.write_bytes(new.path.read_bytes())
        async with asyncio.timeout(60):
            while await serial_at(dialer, place) in {"", before}:
                await asyncio.sleep(0.01)


async def serial_at(dialer: Dialer, place: Address) -> str:
    """Of the certificate that is shown there; empty while one of both sides does not accept the other's."""
    try:
        connection = await dialer.open(place, request_timeout_s=20)
    except (ConnectionLost, AuthenticationFailed):
        return ""
    assert connection._link is not None
    assert connection._link.certificate is not None
    connection.close()
    return connection._link.certificate.serial


def test_a_node_without_settings_trusts_its_network() -> None:
    doors = Doors(planned({}), SystemEntropy())
    assert (doors.proof.tls, doors.proof.credentials, doors.http) == (None, None, None)
