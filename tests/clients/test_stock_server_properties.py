"""A node started with Kafka's own configuration files."""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.clients.nodes import PATIENCE_S, SERVE
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

STOCK = Path(__file__).parent / "stock"


def stock_file(name: str, home: Path, ports: dict[str, int]) -> Path:
    """The file as it comes, but for its ports and its directory."""
    text = (STOCK / name).read_text()
    for usual, own in ports.items():
        text = text.replace(f":{usual}", f":{own}")
    mine = home / name
    mine.write_text(re.sub(r"(?m)^log.dirs=.*/", f"log.dirs={home}/", text))
    return mine


@contextmanager
def running(*arguments: str, log: Path) -> Iterator[str]:
    """The line by which a node says that it is ready. It has to stop cleanly."""
    with log.open("a") as stderr:
        node = subprocess.Popen([*SERVE, "--http", "off", *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert node.stdout is not None
        line = node.stdout.readline()
        assert "is ready" in line, log.read_text()
        yield line
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()
        node.stdout.close()


def test_the_stock_files_start_a_node_and_let_another_in(tmp_path: Path) -> None:
    clients, nodes, more_clients, more_nodes = free_ports(4)
    first = stock_file("server.properties", tmp_path, {"9092": clients, "9093": nodes})
    second = stock_file("broker.properties", tmp_path, {"9092": more_clients, "9093": nodes})
    found = ["--cluster-listen", f"localhost:{more_nodes}", "--insecure"]
    log = tmp_path / "node.log"
    with running("--config", str(first), "--insecure", log=log) as line:
        assert f"node 1 is ready: kafka://0.0.0.0:{clients}" in line
        assert f"data={tmp_path}/kraft-combined-logs" in line
        assert "num.network.threads does nothing: one event loop serves all connections" in log.read_text()
        with running("--config", str(second), *found, log=tmp_path / "second.log") as other:
            assert re.search(f"node 2 is ready: kafka://[^ ]+:{more_clients} ", other)
            admin = AdminClient({"bootstrap.servers": f"localhost:{clients}"})
            admin.create_topics([NewTopic("t", 1, 2)])["t"].result(PATIENCE_S)
            brokers = admin.list_topics(timeout=PATIENCE_S).brokers.values()
            assert {(node.id, node.host, node.port) for node in brokers} == {
                (1, "localhost", clients),
                (2, "localhost", more_clients),
            }
            asked = ConfigResource(ResourceType.BROKER, "1")
            settings = admin.describe_configs([asked])[asked].result(PATIENCE_S)
            assert settings["log.retention.hours"].value == "168"


def test_options_win_over_the_file(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file = stock_file("server.properties", tmp_path, {"9093": free_ports(1)[0]})
    options = [
        "--data-dir",
        str(tmp_path / "mine"),
        "--listen",
        f"127.0.0.1:{port}",
        "-Xnum.partitions=7",
        "--insecure",
    ]
    with running("--config", str(file), *options, log=tmp_path / "node.log") as line:
        assert f"kafka://127.0.0.1:{port} data={tmp_path}/mine" in line


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [*SERVE, "--http", "off", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode in {1, 2}
    return done.stderr


def test_what_the_file_must_not_ask_for_is_said_before_anything_is_written(tmp_path: Path) -> None:
    file = stock_file("server.properties", tmp_path, {})
    said = refused("--config", str(file))
    assert "PLAINTEXT at 0.0.0.0:9092 serves everybody who reaches it: it needs SASL, or client certificates" in said
    assert "CONTROLLER at 0.0.0.0:9093 takes everybody for a node" in said
    assert "--insecure opens them all the same" in said
    file.write_text(file.read_text().replace("PLAINTEXT://", "SASL_SSL://"))
    assert "ssl.keystore.location: listener SASL_SSL speaks TLS, and has no certificate" in refused(
        "--config", str(file)
    )
    file.write_text(file.read_text().replace("listeners=SASL_SSL://:", "listeners=SASL_SSL:"))
    assert f"{file}, line 9: listeners=SASL_SSL:9092," in refused("--config", str(file))
    assert not (tmp_path / "kraft-combined-logs").exists()


def test_a_broker_file_needs_a_place_for_nodes(tmp_path: Path) -> None:
    assert "add --cluster-listen" in refused("--config", str(stock_file("broker.properties", tmp_path, {})))


def test_the_directory_of_apache_kafka_is_left_alone(tmp_path: Path) -> None:
    """Its identity has the name and the form of ours."""
    (tmp_path / "meta.properties").write_text(
        "#\nversion=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").touch()
    said = refused("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert "the data directory is Apache Kafka's" in said
    assert not (tmp_path / "topics").exists()
