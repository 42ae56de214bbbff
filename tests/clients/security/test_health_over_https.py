"""Health and metrics over TLS, and a listener beside another one."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.certificates import Certificates
from tests.clients.nodes import PATIENCE_S, NodeProcess
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path


def is_alive(url: str, trusting: ssl.SSLContext) -> bool:
    """Whether it says so, to somebody with this certificate."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=trusting) as answer:
            return (answer.status, answer.read()) == (200, b"alive\n")
    except (OSError, HTTPException):
        return False


def test_health_is_told_over_tls_alone_and_each_listener_speaks_its_own_way(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    held = certificates.issue("node")
    encrypted = f"127.0.0.1:{free_port()}"
    node = NodeProcess(
        tmp_path / "node",
        {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ENCRYPTED:SSL,HTTP:SSL",
            "ssl.keystore.location": str(held.certificate),
            "ssl.key.location": str(held.key),
            "listener.name.http.ssl.client.auth": "required",
            "listener.name.http.ssl.truststore.location": str(certificates.path),
            "listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=scraper$/$0/",
        },
    )
    plain = node.bootstrap_servers
    node.bootstrap_servers = f"PLAINTEXT://{plain},ENCRYPTED://{encrypted}"
    node.start()
    try:
        assert node.http.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificates.path))
        with pytest.raises((urllib.error.URLError, ConnectionError, ssl.SSLError)):
            urllib.request.urlopen(f"{node.http}/livez", timeout=PATIENCE_S, context=trusting)
        for name, is_let_in in (("scraper", True), ("somebody", False)):
            shown = certificates.issue(name)
            trusting.load_cert_chain(shown.certificate, shown.key)
            assert is_alive(f"{node.http}/livez", trusting) == is_let_in
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"{node.http.replace('https', 'http')}/livez", timeout=PATIENCE_S)
        with pytest.raises(urllib.error.URLError, match=r"(?i)certificate"):
            urllib.request.urlopen(f"{node.http}/livez", timeout=PATIENCE_S)
        for servers, settings in (
            (plain, {}),
            (encrypted, {"security.protocol": "SSL", "ssl.ca.location": str(certificates.path)}),
        ):
            told = AdminClient({"bootstrap.servers": servers, **settings}).list_topics(timeout=PATIENCE_S)
            assert [f"{it.host}:{it.port}" for it in told.brokers.values()] == [servers]
        assert not re.search(r"PRIVATE KEY", node.log_path.read_text())
    finally:
        node.stop()
