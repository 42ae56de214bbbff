"""A client is told where nodes have the listener that it asks on, and of no node that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.listeners import ListenerSecurity, SecurityProtocol
from headrace.broker.access.listener_access import ListenerAccess
from headrace.broker.membership.local_node import NODES
from headrace.runtime.network import Address
from headrace.servers.kafka.build import kafka_server
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.join_cluster import JoinClusterRequest, JoiningEndpoint
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 9
INSIDE, OUTSIDE = (ListenerAccess(ListenerSecurity(name, SecurityProtocol.PLAINTEXT)) for name in ("INSIDE", "OUTSIDE"))


async def test_each_listener_has_addresses_of_its_own(tmp_path: Path) -> None:
    async with living_server(tmp_path, lambda _: INSIDE) as living:
        outside = kafka_server(living.node, Address("far.example", 443), access=OUTSIDE)
        living.meetings.append(outside)  # they stop with it
        at_outside = await outside.start(Address("127.0.0.1", 0))
        meeting = await living.connect(await living.listen_for_nodes())
        endpoints = [JoiningEndpoint(NODES, "10.0.0.9", 9093), JoiningEndpoint("INSIDE", "10.0.0.9", 9092)]
        joined = await meeting.ask(
            JoinClusterRequest(OTHER, "", b"i" * 16, b"d" * 16, None, 2000, 1, endpoints),
            JoinClusterRequest.VERSIONS[1],
        )
        assert joined.error_code == 0, joined.error_message
        told = {}
        for name, address in (("inside", living.address), ("outside", at_outside)):
            client = await living.connect(address)
            answer = await client.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
            told[name] = {it.broker_id: (it.host, it.port) for it in answer.brokers}
        assert told["inside"] == {1: tuple(living.address), OTHER: ("10.0.0.9", 9092)}
        assert told["outside"] == {1: ("far.example", 443)}
