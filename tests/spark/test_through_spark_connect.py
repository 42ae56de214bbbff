"""Topics through Spark Connect: the program has neither a JVM nor a cluster beside it, only the address of a server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
import pytest
from confluent_kafka import Producer

from tests.clients.nodes import PATIENCE_S, new_name
from tests.ports import free_port
from tests.spark.process_family import Family
from tests.spark.topic_contents import everything_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.nodes import NodeProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.clients.node_fixtures"]

HANG_S: Final = 600
SPARK_SUBMIT: Final = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED: Final = "Spark Connect server started"
CLIENT: Final = Path(__file__).with_name("connect_client.py")
CLIENT_PACKAGES: Final = Path(sys.prefix) / "connect"
RECORDS: Final = 100


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    if not (CLIENT_PACKAGES / "grpc").is_dir():
        pytest.skip("a client of Spark Connect needs grpc and pandas, which `make test` installs beside the rest")
    port, log = free_port(), tmp_path / "server.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    family = Family(log)
    family.start([SPARK_SUBMIT, "--master", "local[2]", "--class", SERVER, *options, "spark-internal"])
    try:
        while STARTED not in log.read_text():
            assert family.exit_code() is None, log.read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        family.kill_all()


@pytest.mark.timeout(HANG_S)
def test_a_topic_is_read_and_written_in_batches_and_as_a_stream(server: str, node: NodeProcess, tmp_path: Path) -> None:
    topic = node.create_topic(new_name("remote"), partitions=2)
    copies = [node.create_topic(f"{topic}-{kind}") for kind in ("batch", "stream")]
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    values = [b"%d" % number for number in range(RECORDS)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0

    environ = {**os.environ, "PYTHONPATH": f"{CLIENT_PACKAGES}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(
        [sys.executable, str(CLIENT), server, node.bootstrap_servers, topic, str(tmp_path)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert (ran.returncode, ran.stdout.split()) == (0, [str(RECORDS)]), ran.stderr
    for copy in copies:
        assert Counter(each.value for each in everything_in(node, copy)) == Counter(values)
