"""One node as a real process that can be killed, restarted on its data, and asked how it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import secured_run
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SERVE = (sys.executable, "-m", "headrace", "serve")
SOURCE = Path(__file__).parents[2] / "src"
READY = "is ready:"
LOCAL = "127.0.0.1"
PATIENCE_S = 120.0  # nothing here is measured; this only ends a test that hangs
POLL_S = 0.01


class NodeProcess:
    """Use it with `with`: whatever happens, no process is left behind. The log file is kept across restarts."""

    def __init__(
        self,
        data_dir: Path,
        log_path: Path,
        *,
        configs: Mapping[str, str] | None = None,
        host: str = LOCAL,
        options: Sequence[str] = (),
        prefix: Sequence[str] = (),
        before_exec: Callable[[], None] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.log_path = log_path
        self.configs = dict(configs or {})
        self.host = host
        self.options = tuple(options)
        """What `serve` is told besides."""
        self.prefix = tuple(prefix)
        """A command that runs the node, such as a tracer. The node must stay the direct child."""
        self.before_exec = before_exec
        self.port, self.http_port = free_ports(2)
        self.starts_s: list[float] = []
        """How long each start took until the node was ready."""
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._started_s = 0.0

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    # Life

    def start(self) -> NodeProcess:
        """Start and wait until it is ready."""
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """Start without waiting."""
        assert not self.is_running, "the node runs already"
        configs = [part for name, value in self.configs.items() for part in ("-X", f"{name}={value}")]
        command = [
            *self.prefix,
            *SERVE,
            *("--data-dir", str(self.data_dir), "--listen", self.bootstrap, "--http", f"{self.host}:{self.http_port}"),
            *(() if self.host == LOCAL else ("--insecure",)),  # a network that the test has made for itself
            *self.options,
            *secured_run.serve_options(self.bootstrap),
            *configs,
        ]
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._started_s = time.monotonic()
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
                preexec_fn=self.before_exec,  # noqa: PLW1509 - sets limits only, and takes no lock
            )

    def wait_ready(self) -> None:
        wait_until(lambda: READY in self.log or not self.is_running, "the node is ready", self._tail)
        if READY not in self.log:
            raise AssertionError(f"the node ended with {self.exit_code} instead of getting ready:\n{self._tail()}")
        self.starts_s.append(time.monotonic() - self._started_s)

    def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        assert self._child is not None
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()

    def freeze(self) -> None:
        """Stop every thread between two system calls: one that is under way ends first."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: set(self._thread_states()) == {"T"}, "the node stands still")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _thread_states(self) -> list[str]:
        stats = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return [stat.read_text().rpartition(")")[2].split()[0] for stat in stats]

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.tell_to_stop()
        return self.wait_exit()

    def tell_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        assert self._child is not None
        self._child.send_signal(signal.SIGTERM)

    def wait_exit(self) -> int:
        assert self._child is not None
        try:
            return self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the node did not end:\n{self._tail()}") from None

    @property
    def exit_code(self) -> int | None:
        return None if self._child is None else self._child.poll()

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    # What it says

    @property
    def log(self) -> str:
        """Everything that it said since its last start."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _tail(self) -> str:
        return "\n".join(self.log.splitlines()[-40:])

    def readiness(self) -> tuple[int, dict[str, Any]]:
        """Status and content of `/readyz`."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.http_port}/readyz", timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


def wait_until(is_done: Callable[[], bool], what: str, explain: Callable[[], str] = str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {PATIENCE_S:g} s in vain until {what}:\n{explain()}")
        time.sleep(POLL_S)
