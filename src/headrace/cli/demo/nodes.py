"""The nodes of the tour: processes on free ports, which can be killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from headrace.cli.terminal.complaints import Complaint

if TYPE_CHECKING:
    from pathlib import Path

HOST: Final = "127.0.0.1"
READY: Final = "is ready: kafka://"
LOOK_S: Final = 0.05
START_S: Final = 120.0  # against hangs; a node is ready in a second or two
STOP_S: Final = 30.0  # against hangs; a node flushes its logs and is gone in a fraction of a second
LAST_WORDS: Final = 10  # lines of its log that are shown if a node ends too soon


class DemoNodes:
    """`with` starts them all, and ends them all, however the block ends."""

    def __init__(self, home: Path, count: int) -> None:
        self.home = home
        self.node_ids = range(1, count + 1)
        ports = _free_ports(2 * count)
        self._addresses = {node_id: f"{HOST}:{ports.pop()}" for node_id in self.node_ids}
        self._voters = ",".join(f"{node_id}@{HOST}:{ports.pop()}" for node_id in self.node_ids)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._started_at: dict[int, int] = {}
        """Where in its log each node's present life begins."""

    def __enter__(self) -> DemoNodes:
        try:
            for node_id in self.node_ids:
                self.launch(node_id)
            deadline_s = time.monotonic() + START_S
            while not all(self.is_ready(node_id) for node_id in self.node_ids):
                if time.monotonic() > deadline_s:
                    raise Complaint(f"the nodes are not ready after {START_S:.0f} s", f"see their logs in {self.home}")
                time.sleep(LOOK_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running.values():
            running.terminate()
        deadline_s = time.monotonic() + STOP_S
        for running in self._running.values():
            try:
                running.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses.values())

    def launch(self, node_id: int) -> None:
        """A session of its own: Ctrl-C reaches the tour alone, which then ends its nodes in order."""
        log_path = self._log_path(node_id)
        with log_path.open("ab") as log:
            self._started_at[node_id] = log.tell()
            self._running[node_id] = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "headrace", *self._arguments(node_id)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _arguments(self, node_id: int) -> list[str]:
        arguments = ["serve", "--node-id", str(node_id), "--data-dir", str(self.home / f"node-{node_id}")]
        arguments += ["--listen", self._addresses[node_id], "--http", "off"]
        if len(self.node_ids) > 1:
            arguments += ["--voters", self._voters, "-Xdefault.replication.factor=3"]
        return arguments

    def is_ready(self, node_id: int) -> bool:
        """Complaint if it has ended instead."""
        with self._log_path(node_id).open("rb") as log:
            log.seek(self._started_at[node_id])
            said = log.read().decode(errors="replace")
        if READY in said:
            return True
        if self._running[node_id].poll() is not None:
            last_words = "\n".join(said.splitlines()[-LAST_WORDS:])
            raise Complaint(f"node {node_id} did not start:\n{last_words}")
        return False

    def kill(self, node_id: int) -> None:
        """As a crash does it."""
        running = self._running.pop(node_id)
        running.send_signal(signal.SIGKILL)
        running.wait()

    def _log_path(self, node_id: int) -> Path:
        return self.home / f"node-{node_id}.log"


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now. All are held until the last is found, so that none comes twice."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
