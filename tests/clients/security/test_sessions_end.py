"""Sessions that last for two seconds: a client that logs in again in time notices nothing, and one that does not
connects again; either way every record arrives.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.nodes import new_name
from tests.clients.security.secured_clients import LASTING, PATIENCE_S, Way
from tests.clients.security.secured_node import SecuredNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.security.secured_clients import Lasting

SESSION_S: Final = 2.0
ENOUGH: Final = 3.5  # sessions: the connection that writes is cut three times, unless it logs in again


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("sessions"), session_max_s=SESSION_S) as running:
        yield running


@pytest.mark.parametrize("client", LASTING, ids=lambda client: client.name)
def test_every_record_arrives(node: SecuredNode, client: Lasting) -> None:
    topic, logins = new_name("sessions"), node.node.counters.logins
    node.create_topic(topic)
    way = Way("SASL_PLAINTEXT", "", "SCRAM-SHA-256", "alice", "wonder")
    expired_before, began_s = logins.expired, time.monotonic()

    def is_enough() -> bool:
        took_s = time.monotonic() - began_s
        assert took_s < PATIENCE_S
        return took_s > ENOUGH * SESSION_S

    count = client.write_on(node.address_of("SASL_PLAINTEXT"), way, topic, is_enough)
    (partition,) = (it for it in node.node.topics.partitions() if it.name.topic == topic)
    assert partition.replica.high_watermark >= count > 0
    cut = logins.expired - expired_before
    # On a machine that is busy a renewal may come too late, by some tenths of a second.
    assert cut <= 1 if client.renews else cut >= 2, cut
