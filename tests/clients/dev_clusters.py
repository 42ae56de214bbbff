"""`headrace dev` as a user starts it, on ports that are free."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.clients.commands import COMMAND
from tests.clients.nodes import PATIENCE_S
from tests.ports import free_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class DevCluster(NamedTuple):
    addresses: str
    pid: int
    log_path: Path
    ready: str = ""
    """The line by which it says so."""

    def pid_of(self, node_id: int) -> int:
        listed = subprocess.run(
            ["ps", "-ww", "--ppid", str(self.pid), "-o", "pid=,args="], capture_output=True, text=True, check=True
        )
        (line,) = (line for line in listed.stdout.splitlines() if f"--node-id {node_id} " in line)
        return int(line.split()[0])


@contextmanager
def dev_cluster(home: Path, node_count: int = 3) -> Iterator[DevCluster]:
    """Ended with Ctrl-C, it must end well."""
    base = free_base(node_count)
    command = [*COMMAND, "dev", "--nodes", str(node_count), "--port-base", str(base), "--http-base", "off"]
    log_path = home / "dev.log"
    with log_path.open("w") as log:
        running = subprocess.Popen(
            [*command, "--data-dir", str(home / "dev")], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        addresses = ",".join(f"127.0.0.1:{base + 100 * place}" for place in range(node_count))
        assert f"cluster of {node_count} nodes is ready: kafka://{addresses} " in line, log_path.read_text()
        yield DevCluster(addresses, running.pid, log_path, line)
    finally:
        running.send_signal(signal.SIGINT)
        code = running.wait(PATIENCE_S)
    assert code == 0, log_path.read_text()
    assert "Traceback" not in log_path.read_text()


def free_base(node_count: int = 3) -> int:
    """A port from which on all that the nodes need are free: two each, a hundred from node to node."""
    return free_row(100 * (node_count - 1) + 2)
