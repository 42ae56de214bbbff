"""Live clusters for client tests: each node is a process of its own, and can be stopped, killed and started again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from functools import cached_property
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tests import secured_run
from tests.clients.nodes import SERVE
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

PATIENCE_S: Final = 120.0  # against hangs only; everything waited for here takes a fraction of it
ASK_S: Final = 10.0
LOOK_S: Final = 0.1
_SIGNS_OF_A_BUG = ("our fault", "Traceback", "must stop")


class ClusterProcesses:
    """Nodes 1 to N on free ports. `with` starts them all, and stops those that run in the end.

    They found the cluster; one alone is a plain node that others may join. `guests` are further nodes, which join the
    cluster when they are started.
    """

    def __init__(
        self, home: Path, node_count: int = 3, configs: Mapping[str, str] | None = None, *, guests: int = 0
    ) -> None:
        self.home = home
        self.node_ids = range(1, node_count + 1)
        everybody = range(1, node_count + guests + 1)
        ports = free_ports(2 * len(everybody))
        self._addresses = {node_id: f"127.0.0.1:{ports.pop()}" for node_id in everybody}
        self._meetings = {node_id: f"127.0.0.1:{ports.pop()}" for node_id in everybody}
        self._settings = [f"-X{name}={value}" for name, value in (configs or {}).items()]
        self._running: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> ClusterProcesses:
        self.start(*self.node_ids)
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """A test that has failed is not told of more than that."""
        if failure is None:
            self.stop(*self._running)
        else:
            self.kill(*self._running)

    @property
    def bootstrap_servers(self) -> str:
        known = dict.fromkeys([*self.node_ids, *self._running])
        return ",".join(self._addresses[node_id] for node_id in known)

    def address(self, node_id: int) -> str:
        return self._addresses[node_id]

    def log_of(self, node_id: int) -> str:
        return self._log_path(node_id).read_text()

    def _log_path(self, node_id: int) -> Path:
        return self.home / f"node-{node_id}.log"

    # ---- coming and going

    def start(self, *node_ids: int) -> None:
        """All at once, for a majority is needed before any is ready."""
        self.launch(*node_ids)
        self.wait_ready(*node_ids)

    def launch(self, *node_ids: int) -> None:
        for node_id in node_ids:
            command = [*SERVE, "--node-id", str(node_id), "--data-dir", str(self.data_dir(node_id))]
            command += ["--listen", self._addresses[node_id], *self.way_in(node_id), "--http", "off"]
            command += secured_run.serve_options(self._addresses[node_id])
            with self._log_path(node_id).open("a") as log:
                self._running[node_id] = subprocess.Popen(
                    [*command, *self._settings], stdout=subprocess.PIPE, stderr=log, text=True
                )

    def wait_ready(self, *node_ids: int) -> None:
        for node_id in node_ids:
            stdout = self._running[node_id].stdout
            assert stdout is not None
            line = stdout.readline()
            assert "is ready" in line, f"node {node_id} did not start: {line!r}\n{self.log_of(node_id)}"

    def way_in(self, node_id: int) -> list[str]:
        """How a node comes into the cluster."""
        if node_id not in self.node_ids:
            founders = ",".join(self._meetings[founder] for founder in self.node_ids)
            return ["--cluster-listen", self._meetings[node_id], "--join", founders]
        if len(self.node_ids) == 1:
            return ["--cluster-listen", self._meetings[node_id]]
        return ["--voters", ",".join(f"{founder}@{self._meetings[founder]}" for founder in self.node_ids)]

    def data_dir(self, node_id: int) -> Path:
        return self.home / f"node-{node_id}"

    def move(self, *node_ids: int) -> None:
        """The nodes are down; when they come back, they listen elsewhere, and whoever is started then is told so."""
        assert not {*node_ids} & {*self._running}
        ports = free_ports(2 * len(node_ids))
        for node_id in node_ids:
            self._addresses[node_id] = f"127.0.0.1:{ports.pop()}"
            self._meetings[node_id] = f"127.0.0.1:{ports.pop()}"
        self.__dict__.pop("admin", None)  # it knows the old places

    def replace_disk(self, node_id: int) -> None:
        """The node is down; when it comes back, its data directory is empty."""
        assert node_id not in self._running
        shutil.rmtree(self.data_dir(node_id))

    def stop(self, *node_ids: int) -> None:
        """As an operator does it. A node that stops in any other way than cleanly fails the test."""
        codes = self._end(node_ids, signal.SIGTERM)
        for node_id, code in codes.items():
            log = self.log_of(node_id)
            assert code == 0, f"node {node_id} ended with exit code {code}\n{log}"
            assert not any(sign in log for sign in _SIGNS_OF_A_BUG), log

    def kill(self, *node_ids: int) -> None:
        """As a crash does it."""
        self._end(node_ids, signal.SIGKILL)

    def _end(self, node_ids: Sequence[int], number: signal.Signals) -> dict[int, int]:
        ending = {node_id: self._running.pop(node_id) for node_id in node_ids if node_id in self._running}
        for running in ending.values():
            running.send_signal(number)
        codes = {}
        for node_id, running in ending.items():
            codes[node_id] = running.wait(PATIENCE_S)
            assert running.stdout is not None
            running.stdout.close()
        return codes

    # ---- what a test may look at

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> str:
        """With the replicas of each partition as they are given."""
        placed = [list(replicas) for replicas in assignments]
        wanted = NewTopic(name, num_partitions=len(placed), replica_assignment=placed, config=dict(configs or {}))
        self.admin.create_topics([wanted], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)
        return name

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
        """Leader, replicas and in-sync set of each partition. Who is asked may hear of a new topic a moment later, or
        have been killed: librdkafka then waits for that one to come back."""
        found: dict[int, PartitionMetadata] = {}

        def is_known() -> bool:
            try:
                found.update(self.admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._TIMED_OUT:
                    raise
            return bool(found)

        wait_until(is_known, f"any node knows {topic}")
        return {index: (part.leader, list(part.replicas), sorted(part.isrs)) for index, part in found.items()}


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"it never came about that {what}"
        time.sleep(LOOK_S)
