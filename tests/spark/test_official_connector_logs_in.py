"""Spark's official Kafka connector logs in, and our format does with the same options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.nodes import new_name
from tests.clients.security.java_settings import java_settings
from tests.clients.security.secured_node import SecuredNode
from tests.spark import either_format
from tests.spark.spark_process import SparkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.spark.spark_process import SparkProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.spark.connector_fixtures"]

BOTH = ("kafka", "headrace")
WAYS = ("SCRAM-SHA-256", "SCRAM-SHA-512 over TLS", "PLAIN over TLS", "certificate")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("secured")) as running:
        yield running


def options_of(node: SecuredNode, home: Path, name: str, password: str = "wonder") -> dict[str, str]:
    settings = java_settings(node, home, name, password)
    settings["bootstrap.servers"] = node.address_of(settings["security.protocol"])
    return {f"kafka.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize("name", WAYS)
def test_it_writes_and_reads(both: SparkProcess, secured: SecuredNode, tmp_path: Path, name: str, format_: str) -> None:
    topic, options = new_name("secured"), options_of(secured, tmp_path, name)
    secured.create_topic(topic)
    both.run(
        either_format.write, format_, [("a key", "a value")], "key string, value string", options | {"topic": topic}
    )
    ((key, value, *_),) = both.run(either_format.read, format_, options | {"subscribe": topic})
    assert (key, value) == (b"a key", b"a value")


@pytest.mark.parametrize("format_", BOTH)
def test_a_wrong_password_is_told_as_that(
    both: SparkProcess, secured: SecuredNode, tmp_path: Path, format_: str
) -> None:
    options = options_of(secured, tmp_path, "SCRAM-SHA-512 over TLS", "not this word")
    with pytest.raises(SparkFailed, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        both.run(either_format.read, format_, options | {"subscribe": "anything"})
