"""One host cannot take every connection: others get theirs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from headrace.access.quotas.entity import IP, EntityPart
from headrace.access.quotas.keys import QuotaKey
from headrace.broker.access.listener_access import ConnectionLimits, ListenerAccess
from headrace.metadata.commands.quota_commands import EntityEdits, QuotaEdit, alter_quotas
from headrace.runtime.network import Address
from headrace.servers.kafka.build import kafka_server
from headrace.servers.kafka.connections import connection_table
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.servers.living_server import Client, LivingServer, living_server, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MOST = 12
ASK = ApiVersionsRequest()


async def connect_from(living: LivingServer, host: str) -> Client:
    address = living.address
    reader, writer = await asyncio.open_connection(address.host, address.port, local_addr=(host, 0))
    client = Client(reader, writer)
    living._clients.append(client)
    return client


async def crowd(living: LivingServer, host: str, count: int = MOST) -> list[Client]:
    """Connections that are in use."""
    clients = [await connect_from(living, host) for _ in range(count)]
    for client in clients:
        await client.ask(ASK, 0)
    return clients


async def test_a_crowd_makes_way_for_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with living_server(tmp_path, max_connections=str(MOST)) as living:
        greedy = await crowd(living, "127.0.0.1")
        others = await crowd(living, "127.0.0.2", MOST // 2)
        for client in others:
            await client.ask(ASK, 0)
        assert "it makes way for one of 127.0.0.2" in caplog.text
        for client in greedy[: MOST // 2]:
            assert await client.frame() is None, "who was silent longest goes first"
        for client in greedy[MOST // 2 :]:
            await client.ask(ASK, 0)
        late = await connect_from(living, "127.0.0.1")
        assert await late.frame() is None
        assert living.node.counters.connections == MOST


async def test_silent_connections_make_way_for_others_of_their_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_table, "SILENT_S", -1.0)
    async with living_server(tmp_path, max_connections=str(MOST)) as living:
        for _ in range(MOST):
            await living.connect()
        await until(lambda: len(living.server.connections) == MOST)
        client = await living.connect()
        await client.ask(ASK, 0)
        assert len(living.server.connections) == MOST


async def test_silent_connections_of_many_hosts_make_way_for_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_table, "SILENT_S", 0.0)
    async with living_server(tmp_path, max_connections=str(MOST)) as living:
        (active,) = await crowd(living, "127.0.0.1", 1)
        for number in range(2, MOST + 1):
            await connect_from(living, f"127.0.0.{number}")
        await until(lambda: len(living.server.connections) == MOST)
        for number in range(2, MOST + 1):
            await crowd(living, f"127.0.1.{number}", 1)
        await active.ask(ASK, 0)
        assert len(living.server.connections) == MOST


async def test_a_host_has_as_many_as_it_may(tmp_path: Path) -> None:
    limits = {"max_connections_per_ip": "2", "max_connections_per_ip_overrides": "127.0.0.3:1"}
    async with living_server(tmp_path, **limits) as living:
        for host, allowed in (("127.0.0.1", 2), ("127.0.0.2", 2), ("127.0.0.3", 1)):
            clients = await crowd(living, host, allowed)
            assert await (await connect_from(living, host)).frame() is None
            for client in clients:
                await client.ask(ASK, 0)


async def test_nodes_may_have_as_many_as_they_need(tmp_path: Path) -> None:
    async with living_server(tmp_path, max_connections_per_ip="1") as living:
        meeting = kafka_server(living.node, is_for_nodes=True)
        living.address = await meeting.start(living.address._replace(port=0))
        await crowd(living, "127.0.0.1", 5)
        await living.close_clients()
        await meeting.stop()


async def test_all_addresses_of_a_host_stand_in_one_line(tmp_path: Path) -> None:
    """Who has an address of IPv6 has very many of them."""
    async with living_server(tmp_path) as living:
        await connect_from(living, "127.0.0.1")
        await until(lambda: len(living.server.connections) == 1)
        (connection,) = living.server.connections.seats()
        assert connection.address == "127.0.0.1"
        connection.link.peer = Address("2001:db8:1:2:3:4:5:6", 1)  # type: ignore[misc]  # no link of a test comes from there
        connection.connected(connection.link)
        assert connection.address == "2001:0db8:0001:0002::/64"


async def test_connections_that_come_too_fast_from_one_host_wait_or_are_closed(tmp_path: Path) -> None:
    async with living_server(tmp_path) as living:
        fast, slow = EntityPart(IP, "127.0.0.2"), QuotaEdit(QuotaKey.CONNECTIONS.value, 1.0)
        await living.node.commands.submit(lambda image: alter_quotas(image, [EntityEdits((fast,), (slow,))]))
        began_s = time.monotonic()
        clients = [await connect_from(living, "127.0.0.2") for _ in range(30)]
        for client in clients[:11]:
            await client.ask(ASK, 0)  # as many as may come in the whole window
        other = await connect_from(living, "127.0.0.1")
        await other.ask(ASK, 0)
        assert await clients[-1].frame() is None
        await clients[11].ask(ASK, 0)
        assert time.monotonic() - began_s >= 1.0
        assert living.server.connections.count_of("127.0.0.2") < 30


async def test_a_listener_has_limits_of_its_own_beside_those_of_its_node(tmp_path: Path) -> None:
    access = ListenerAccess(limits=ConnectionLimits(most=4, per_second=1))
    async with living_server(tmp_path, lambda _: access, quota_window_num="3") as living:
        began_s = time.monotonic()
        for number in range(1, 5):
            await crowd(living, f"127.0.0.{number}", 1)
        assert time.monotonic() - began_s >= 1.0, "the fourth had to wait"
        late = await connect_from(living, "127.0.0.9")
        assert await late.frame() is None
        assert len(living.server.connections) == 4


async def test_a_node_takes_its_connections_at_its_rate(tmp_path: Path) -> None:
    async with living_server(tmp_path, max_connection_creation_rate="1", quota_window_num="2") as living:
        nodes = await living.listen_for_nodes()
        began_s = time.monotonic()
        clients = [await connect_from(living, f"127.0.0.{number}") for number in range(1, 5)]
        for client in clients[:3]:
            await client.ask(ASK, 0)
        assert time.monotonic() - began_s >= 1.0
        for _ in range(10):
            node = await living.connect(nodes)
            await node.ask(ASK, 0)
