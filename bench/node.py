"""A fresh node in a data directory of its own, and what the system knows about it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench import wire
from bench.programs import BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

READY_S_MAX = 30.0
STOP_S_MAX = 20.0  # a graceful stop flushes what was written
COMPILED = "compiled"  # the modules, in the workspace
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Node:
    """`with Node(workspace) as node:` starts one and waits until it is ready; leaving stops it and deletes its files.

    `cold=True` does not wait: then the caller measures how long it takes.
    """

    def __init__(self, workspace: Path, *, cold: bool = False, options: Sequence[str] = ()) -> None:
        """`options` are what `serve` is told besides."""
        self.home = workspace / f"node-{time.monotonic_ns()}"
        self.port, self.http_port = free_ports(2)
        self._cold = cold
        self._options = options

    def __enter__(self) -> Self:
        self.home.mkdir()
        self.start()
        if not self._cold:
            try:
                self.wait_ready()
            except BaseException:
                self._stop()
                raise
        return self

    def start(self) -> None:
        # Its own session: Ctrl-C reaches the driver alone, which then stops the node in its own order.
        with (self.home / "stdout").open("wb") as stdout, (self.home / "stderr").open("wb") as stderr:
            self._started = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """With the modules that `Stage.compile_modules` compiled, as after `pip install`."""
        compiled = {"PYTHONPYCACHEPREFIX": str(self.home.parent / COMPILED), "PYTHONDONTWRITEBYTECODE": ""}
        return {**os.environ, **compiled}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "headrace", "serve"),
            *("--data-dir", str(self.home / "data")),
            *("--listen", f"127.0.0.1:{self.port}"),
            *("--http", f"127.0.0.1:{self.http_port}"),
            *self._options,
        ]

    def wait_ready(self, within_s: float = READY_S_MAX) -> None:
        """The node prints one line when it is ready."""
        deadline = time.monotonic() + within_s
        while b"\n" not in (self.home / "stdout").read_bytes():
            if not self.is_alive():
                raise BenchError("the node ended before it was ready")
            if time.monotonic() > deadline:
                raise BenchError(f"the node was not ready after {within_s} s:\n{self._last_words()}")
            time.sleep(0.005)

    def _last_words(self) -> str:
        return (self.home / "stderr").read_text(errors="replace")[-2000:]

    def _stop(self) -> None:
        if self._started.poll():
            print(f"the node had ended with status {self._started.returncode}:\n{self._last_words()}", file=sys.stderr)
        self._started.send_signal(signal.SIGTERM)
        try:
            self._started.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            print(f"the node did not stop within {STOP_S_MAX} s of SIGTERM; killed", file=sys.stderr)
            self._started.kill()
            self._started.wait()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def kill(self) -> None:
        """As a crash does it. It can be started again."""
        self._started.kill()
        self._started.wait()

    def ask_to_stop(self) -> None:
        """`with` waits for it on its way out."""
        self._started.send_signal(signal.SIGTERM)

    def is_alive(self) -> bool:
        return self._started.poll() is None

    def connect(self) -> socket.socket:
        return wire.connect(self.port, within_s=READY_S_MAX, is_alive=self.is_alive)

    def create_topic(self, partitions: int, topic: str = "bench") -> None:
        with self.connect() as connection:
            wire.create_topic(connection, topic, partitions)

    def cpu_s(self) -> float:
        """User and system time so far, of all its threads."""
        fields = Path(f"/proc/{self._started.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_mb(self, *, peak: bool = False) -> float:
        status = Path(f"/proc/{self._started.pid}/status").read_text()
        found = re.search(rf"^{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")


def free_ports(count: int) -> list[int]:
    """Free a moment ago; taken together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def longest_lag_s(before: str, after: str) -> float | None:
    """The node's own count: its gauge of the maximum or, failing that, the highest bucket that grew meanwhile."""
    gauge = re.search(r"^headrace_loop_lag_seconds_max(?:\{.*\})? (\S+)", after, re.MULTILINE)
    if gauge is not None:
        return float(gauge[1])
    grown = {bound: count - _buckets(before).get(bound, 0.0) for bound, count in _buckets(after).items()}
    if not grown:
        return None
    return min(bound for bound, count in grown.items() if count == max(grown.values()))


def _buckets(metrics: str) -> dict[float, float]:
    pattern = r'^headrace_loop_lag_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)'
    return {float(bound): float(count) for bound, count in re.findall(pattern, metrics, re.MULTILINE)}
