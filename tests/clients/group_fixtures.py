"""A node that groups settle on quickly: a pytest plugin that tests of groups name in `pytest_plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.nodes import NodeProcess, new_name
from tests.clients.raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION_MS_MIN = 100
SWIFT = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS_MIN),
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "6000",  # a static member must be able to restart within it
}


@pytest.fixture(scope="session")
def swift_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all groups that do not stop it."""
    running = NodeProcess(tmp_path_factory.mktemp("swift"), SWIFT).start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def connection(swift_node: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(swift_node.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def two_partitions(swift_node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions, for one test."""
    return swift_node.create_topic(new_name(request.node.name), 2)
