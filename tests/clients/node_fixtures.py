"""Fixtures around live nodes: a pytest plugin that client tests name in `pytest_plugins`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.clients.nodes import NodeProcess, new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all tests that do not harm it."""
    never = {"log.retention.check.interval.ms": "86400000"}  # many tests write records of long ago
    running = NodeProcess(tmp_path_factory.mktemp("node"), never).start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], NodeProcess]]:
    """Starts a node with settings of its own, for one test."""
    with ExitStack() as running:

        def start(configs: dict[str, str]) -> NodeProcess:
            started = NodeProcess(tmp_path / new_name("node"), configs).start()
            running.callback(started.stop)
            return started

        yield start


@pytest.fixture
def own_node(start_node: Callable[[dict[str, str]], NodeProcess]) -> NodeProcess:
    """A node for one test, which may stop and kill it."""
    return start_node({})


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic with one partition and default settings, for one test."""
    return node.create_topic(new_name(request.node.name))
