"""A listener that speaks TLS, and clients on real sockets who know whom they talk to, or do not."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from headrace.access.listeners import ListenerSecurity, SecurityProtocol
from headrace.broker.access.listener_access import ListenerAccess
from headrace.runtime.tls.contexts import ServerTls
from headrace.runtime.tls.settings import client_context
from headrace.wire.messages.metadata import MetadataRequest
from tests.certificates import Certificates
from tests.unit.servers.living_server import fetch, living_server, produce

if TYPE_CHECKING:
    from pathlib import Path

ENCRYPTED = ListenerSecurity("SSL", SecurityProtocol.SSL)


async def test_a_listener_with_tls_serves_over_tls_alone(tmp_path: Path) -> None:
    held = Certificates(tmp_path).issue("node")
    access = ListenerAccess(ENCRYPTED, ServerTls(held.settings()))
    async with living_server(tmp_path / "data", lambda _: access) as living:
        assert living.server.security.name == "SSL"
        await living.create_topic("orders")
        client = await living.connect(tls=client_context(held.trusting))
        produced = await client.ask(produce("orders", b"secret"), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        fetched = await client.ask(fetch("orders"), 12)
        assert b"secret" in bytes(fetched.responses[0].partitions[0].records)
        session = client.writer.get_extra_info("ssl_object")
        assert isinstance(session, ssl.SSLObject)
        assert session.version() == "TLSv1.3"

        plain = await living.connect()
        plain.begin(MetadataRequest([]), 9)
        assert await plain.frame() is None
        assert access.tls is not None
        assert (access.tls.handshakes, access.tls.failed_handshakes) == (1, 1)
