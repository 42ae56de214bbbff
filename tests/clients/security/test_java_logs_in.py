"""The Java client logs in in every way that it has: Kafka's own console tools write a record and read it back."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.nodes import new_name
from tests.clients.security.java_settings import WAYS, java_settings
from tests.clients.security.secured_node import SecuredNode
from tools.kafka_tools.apache import java_command
from tools.kafka_tools.jars import NotToBeHad, kafka_class_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("apache-kafka")  # one Java machine beside another is enough for a small computer

PATIENCE_S: Final = 120  # against hangs; a tool takes some seconds, most of them Java's start
VALUE: Final = "a value"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    try:
        kafka_class_path()
    except NotToBeHad as reason:
        pytest.skip(f"Apache Kafka's jars are not to be had: {reason}")
    with SecuredNode(tmp_path_factory.mktemp("secured")) as running:
        yield running


def run_tool(home: Path, tool: str, settings: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    properties = home / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java, *rest = java_command(home, f"org.apache.kafka.tools.{tool}", *arguments, "--command-config", str(properties))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(home / 'token').as_uri()}"
    done = subprocess.run(
        [java, allowed, *rest], input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", WAYS)
def test_it_writes_and_reads(node: SecuredNode, tmp_path: Path, name: str) -> None:
    topic, settings = new_name("secured"), java_settings(node, tmp_path, name)
    node.create_topic(topic)
    where = ("--bootstrap-server", node.address_of(settings["security.protocol"]), "--topic", topic)
    written = run_tool(tmp_path, "ConsoleProducer", settings, *where, stdin=f"{VALUE}\n")
    read = run_tool(
        tmp_path, "consumer.ConsoleConsumer", settings, *where, "--from-beginning", "--max-messages", "1",
        "--timeout-ms", str(PATIENCE_S * 500),
    )  # fmt: skip
    assert VALUE in read.splitlines(), written + read


def test_a_wrong_password_is_told_as_that(node: SecuredNode, tmp_path: Path) -> None:
    settings = java_settings(node, tmp_path, "SCRAM-SHA-512 over TLS", "not this word")
    where = ("--bootstrap-server", node.address_of("SASL_SSL"), "--topic", "anything")
    said = run_tool(tmp_path, "ConsoleProducer", settings, *where, stdin=f"{VALUE}\n")
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in said
    assert "not this word" not in said
