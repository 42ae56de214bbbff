"""Apache Kafka itself on this machine: nodes that are brokers and controllers in one, each a process of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING, Final

from tools.kafka_tools.jars import java, kafka_class_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

START_S_MAX: Final = 120.0  # against hangs; on a quiet machine it takes three
STOP_S_MAX: Final = 60.0
HEAP: Final = "-Xmx256m"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_LOG4J = """rootLogger.level=warn
rootLogger.appenderRef.a.ref=A
appender.a.type=Console
appender.a.name=A
appender.a.layout.type=PatternLayout
appender.a.layout.pattern=[%d] %p %m (%c)%n
"""


def java_command(home: Path, main: str, *arguments: str, heap: str = HEAP) -> list[str]:
    """One of Apache Kafka's classes as a program; it logs warnings alone, and to stdout."""
    logging = home / "log4j2.properties"
    logging.write_text(_LOG4J)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]  # it lives for seconds
    flags = [heap, *quick, f"-Dlog4j2.configurationFile={logging}"]
    return [java(), *flags, "-cp", kafka_class_path(), main, *arguments]


class ApacheKafka:
    """A cluster of `nodes`. Each uses two ports: `ports` holds those for clients, and what follows each is its own."""

    def __init__(self, home: Path, ports: list[int], configs: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._ports = dict(enumerate(ports, start=1))
        self._configs = dict(configs or {})
        self._running: list[subprocess.Popen[bytes]] = []
        home.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def meetings(self) -> list[str]:
        return [f"127.0.0.1:{port + 1}" for port in self._ports.values()]

    def __enter__(self) -> ApacheKafka:
        try:
            for node_id in self._ports:
                self._start(node_id)
            for port in self._ports.values():
                self._wait_listening(port)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def data_dir(self, node_id: int) -> Path:
        return self._home / str(node_id) / "data"

    def _start(self, node_id: int) -> None:
        place = self._home / str(node_id)
        place.mkdir(exist_ok=True)
        properties = place / "server.properties"
        settings = self._settings(node_id) | self._configs
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (place / "node.log").open("ab") as log:
            format_it = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
            subprocess.run(java_command(place, *format_it), stdout=log, stderr=log, check=True)
            command = java_command(place, "kafka.Kafka", str(properties), heap="-Xmx512m")
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def _settings(self, node_id: int) -> dict[str, str]:
        port, copies = self._ports[node_id], min(3, len(self._ports))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{at + 1}" for voter, at in self._ports.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_dir(node_id)),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": str(copies),
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": str(copies),
            "transaction.state.log.min.isr": str(min(2, copies)),
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": str(copies),
        }

    def _wait_listening(self, port: int) -> None:
        give_up = time.monotonic() + START_S_MAX
        while time.monotonic() < give_up:
            if any(process.poll() is not None for process in self._running):
                raise RuntimeError(f"Apache Kafka did not start; its logs are in {self._home}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"Apache Kafka does not answer on port {port}; its logs are in {self._home}")
