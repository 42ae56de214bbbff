"""Live nodes for client tests: each is a process of its own, started as a user starts one."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.storage.files.layout import LOG, NAME, TOPICS
from headrace.wire.batches.header import BatchHeader, read_header
from tests import secured_run
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE_S: Final = 60.0  # against hangs only; everything waited for here takes a fraction of it
ANY_PORT: Final = "127.0.0.1:0"
SERVE: Final = (sys.executable, "-m", "headrace", "serve")
_READY = re.compile(r"is ready: kafka://(\S+)(?: (https?://\S+))?")
_SIGNS_OF_A_BUG = ("our fault", "Traceback", "must stop")


class NodeProcess:
    """One node. Stopped or killed, it starts again on the same data and the same address."""

    def __init__(self, home: Path, configs: Mapping[str, str] | None = None) -> None:
        home.mkdir(exist_ok=True)
        self.data_dir = home / "data"
        self.log_path = home / "node.log"
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"  # nobody else's either, while the node is down
        self.http = ""
        self._home = home
        self._settings = [f"-X{name}={value}" for name, value in (configs or {}).items()]
        self._running: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def start(self) -> NodeProcess:
        command = [*SERVE, "--data-dir", str(self.data_dir)]
        command += ["--listen", self.bootstrap_servers, "--http", ANY_PORT]
        command += [*secured_run.serve_options(self.bootstrap_servers), *self._settings]
        with self.log_path.open("a") as log:
            self._running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        ready = _READY.search(line)
        assert ready is not None, f"the node did not start: {line!r}\n{self.log_path.read_text()}"
        self.bootstrap_servers = ready[1]
        self.http = ready[2]
        return self

    def stop(self) -> None:
        """As an operator does it. A node that stops in any other way than cleanly fails the test."""
        code = self._end(signal.SIGTERM)
        log = self.log_path.read_text()
        assert code == 0, f"the node ended with exit code {code}\n{log}"
        assert not any(sign in log for sign in _SIGNS_OF_A_BUG), log

    def kill(self) -> None:
        """As a crash does it."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        running, self._running = self._running, None
        if running is None:
            return 0
        running.send_signal(number)
        code = running.wait(PATIENCE_S)
        assert running.stdout is not None
        running.stdout.close()
        return code

    def with_configs(self, configs: Mapping[str, str]) -> NodeProcess:
        """The same node, stopped, with other settings for its next start."""
        assert self._running is None
        other = NodeProcess(self._home, configs)
        other.bootstrap_servers = self.bootstrap_servers
        return other

    # ---- what a test may look at

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([wanted], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)
        return name

    def alter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        self._alter(ResourceType.TOPIC, name, configs)

    def alter_settings(self, configs: Mapping[str, str]) -> None:
        """The node's own, while it runs."""
        self._alter(ResourceType.BROKER, "1", configs)

    def _alter(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def stored_batches(self, topic: str, partition: int = 0) -> list[BatchHeader]:
        """The headers of a partition's batches as they lie on disk."""
        headers = []
        for segment in sorted(self.directory_of(topic, partition).glob(f"*{LOG}")):
            content = segment.read_bytes()
            position = 0
            while position < len(content):
                headers.append(read_header(content, position))
                position += headers[-1].size
        return headers

    def directory_of(self, topic: str, partition: int = 0) -> Path:
        (directory,) = (
            path.parent
            for path in self.data_dir.glob(f"{TOPICS}/*/{NAME}")
            if path.read_text() == f"topic: {topic}\npartition: {partition}\n"
        )
        return directory

    def flip_byte(self, topic: str, position: int) -> None:
        """Damage a partition's first segment, as a bad disk does."""
        first = min(self.directory_of(topic).glob(f"*{LOG}"))
        with first.open("r+b") as file:
            file.seek(position)
            (byte,) = file.read(1)
            file.seek(position)
            file.write(bytes([byte ^ 0xFF]))

    def memory_mb(self, field: str = "VmRSS") -> int:
        """What the process holds now, or with `VmHWM` the most that it ever held."""
        with open(f"/proc/{self.pid}/status") as status:
            (kilobytes,) = (line.split()[1] for line in status if line.startswith(field))
        return int(kilobytes) // 1024


def new_name(text: str = "topic") -> str:
    """A valid topic name that no other test uses."""
    return f"{re.sub('[^a-zA-Z0-9]+', '-', text)[:100]}-{token_hex(4)}"
