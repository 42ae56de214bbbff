"""Every client logs in in every way that it has, and says why when it is not let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.nodes import new_name
from tests.clients.security.secured_clients import CLIENTS, NotLetIn, Way
from tests.clients.security.secured_node import SecuredNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.security.secured_clients import Client

WAYS = {
    "SCRAM-SHA-256": ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    "SCRAM-SHA-512": ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    "SCRAM-SHA-256 over TLS": ("SASL_SSL", "SCRAM-SHA-256"),
    "SCRAM-SHA-512 over TLS": ("SASL_SSL", "SCRAM-SHA-512"),
    "PLAIN over TLS": ("SASL_SSL", "PLAIN"),
    "OAUTHBEARER over TLS": ("SASL_SSL", "OAUTHBEARER"),
    "certificate": ("SSL", ""),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("secured")) as running:
        yield running


def way_of(node: SecuredNode, name: str, *, is_right: bool = True) -> Way:
    protocol, mechanism = WAYS[name]
    ca = str(node.certificates.path)
    if mechanism == "OAUTHBEARER":
        return Way(protocol, ca, mechanism, secret=node.issuer.token("alice", 3600.0 if is_right else -3600.0))
    if mechanism:
        return Way(protocol, ca, mechanism, "alice", "wonder" if is_right else "not this word")
    return Way(protocol, ca, shown=node.certificates.issue("alice"))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("name", WAYS)
def test_it_writes_and_reads(node: SecuredNode, client: Client, name: str) -> None:
    topic, way = new_name("secured"), way_of(node, name)
    node.create_topic(topic)
    servers = node.address_of(way.protocol)
    client.write(servers, way, topic, b"a value")
    assert client.read(servers, way, topic) == b"a value"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "PLAIN over TLS", "OAUTHBEARER over TLS"])
def test_it_says_why_it_is_not_let_in(
    node: SecuredNode, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    way = way_of(node, name, is_right=False)
    with pytest.raises(NotLetIn) as refused:
        client.write(node.address_of(way.protocol), way, "anything", b"a value")
    if client.name == "aiokafka" and way.mechanism == "OAUTHBEARER":
        return  # it takes what RFC 7628 has servers answer to a wrong token for a yes, asks for something, and is cut
    said = [
        str(refused.value),
        *(it.getMessage() for it in caplog.records if it.name.startswith(("aiokafka", "kafka"))),
    ]
    assert any(f"due to invalid credentials with SASL mechanism {way.mechanism}" in text for text in said), said
    assert "not this word" not in caplog.text
