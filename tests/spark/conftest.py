"""One Spark session for all tests here: a JVM takes ten seconds to start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.testing import Broker
from tests.spark.short_lived_jvm import SHORT_LIVED_JVM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Spark's start script hands it to every driver, also to those of the commands that tests call.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED_JVM)


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
