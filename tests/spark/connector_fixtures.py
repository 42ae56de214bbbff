"""A Spark that has the official Kafka connector, and a node: a plugin that tests name in `pytest_plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.connector_jars import NotToBeHad, connector_jars
from tests.spark.connector_topics import write_history
from tests.spark.spark_process import SparkProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess
    from tests.spark.connector_topics import History

pytest_plugins = ["tests.clients.node_fixtures"]


@pytest.fixture(scope="session")
def both() -> Iterator[SparkProcess]:
    """`format("kafka")` and `format("headrace")` in one Spark."""
    try:
        jars = connector_jars()
    except NotToBeHad as reason:
        pytest.skip(f"the official connector is not to be had: {reason}")
    with SparkProcess(conf={"spark.jars": ",".join(map(str, jars))}) as process:
        yield process


@pytest.fixture(scope="session")
def history(node: NodeProcess) -> History:
    return write_history(node)
