"""One Spark session for all tests here: a JVM takes ten seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from headrace_spark.session import start_session

    session = start_session(
        "headrace tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.default.parallelism": "2"},
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A node in this process; tests take topics of their own names in it."""
    with Broker(configs={"log.retention.check.interval.ms": "86400000"}) as broker:  # many records here are of long ago
        yield broker
