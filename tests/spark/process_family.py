"""A Spark driver with all processes that come from it: JVMs, executors, Python workers. Found and killed one by one.

They scatter over process groups and parents, executors even over other programs' children. What all of them have is
the environment that they were started in, so a variable in it is the family's name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
NAME_VARIABLE: Final = "HEADRACE_TEST_FAMILY"
DRIVER_JVM: Final = "org.apache.spark.deploy.SparkSubmit"
WORKER_DAEMON: Final = "pyspark.daemon"  # forks the Python workers, which keep its command line
PLANNER: Final = "python_streaming_source_runner"  # the worker that plans a stream's batches, and lives as long
# These JVMs live short. To compile little is what they need most.
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Relative(NamedTuple):
    pid: int
    parent_pid: int
    command: str


class Family:
    """Starts a command; whatever it starts in turn belongs to the family, also after the command has ended."""

    def __init__(self, log_path: Path) -> None:
        self.name = token_hex(8)
        self.log_path = log_path
        self._head: subprocess.Popen[bytes] | None = None

    @property
    def executor_conf(self) -> dict[str, str]:
        """For Spark: executors that another program starts carry the name too."""
        return {f"spark.executorEnv.{NAME_VARIABLE}": self.name}

    def start(self, command: Sequence[str]) -> None:
        with self.log_path.open("ab") as log:
            self._head = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    NAME_VARIABLE: self.name,
                    "PYTHONPATH": str(ROOT / "src"),
                    "PYSPARK_PYTHON": sys.executable,
                    "JAVA_TOOL_OPTIONS": QUICK_START,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def exit_code(self) -> int | None:
        """Of the command; None while it runs."""
        assert self._head is not None
        return self._head.poll()

    def wait(self, timeout_s: float) -> int:
        assert self._head is not None
        return self._head.wait(timeout_s)

    def kill_head(self) -> None:
        """The command alone. Its JVM finds out when it reads the end of its input, and may do something until then."""
        assert self._head is not None
        self._head.kill()
        self._head.wait()

    def kill_jvm(self) -> bool:
        """The driver's JVM alone. Python workers and executors live on for a while, and do not know."""
        return self._kill(each.pid for each in self.relatives() if DRIVER_JVM in each.command)

    def freeze(self) -> None:
        """As a machine does that loses its network: it will come back, and does not know what has happened."""
        for each in self.relatives():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for each in self.relatives():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """As a machine does that fails. Some may just be starting others, so until nobody is left."""
        while self._kill(each.pid for each in self.relatives()):
            pass
        if self._head is not None:
            self._head.wait()

    def python_workers(self) -> list[int]:
        """Those of tasks and of the driver's commit. Not their daemon: a worker's parent is a daemon, too."""
        forked = {each.pid: each for each in self.relatives() if WORKER_DAEMON in each.command}
        return sorted(pid for pid, each in forked.items() if each.parent_pid in forked)

    def planners(self) -> list[int]:
        return sorted(each.pid for each in self.relatives() if PLANNER in each.command)

    def kill_one(self, pid: int) -> bool:
        return self._kill([pid])

    def relatives(self) -> Iterator[Relative]:
        sign = f"{NAME_VARIABLE}={self.name}".encode()
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            with suppress(OSError):  # it ended meanwhile, or is none of ours
                if sign in (path / "environ").read_bytes().split(b"\0"):
                    # The name, in brackets, may contain anything; state and parent follow it.
                    parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                    command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield Relative(int(path.name), int(parent), command)

    @staticmethod
    def _kill(pids: Iterator[int] | Sequence[int]) -> bool:
        has_killed = False
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                has_killed = True
        return has_killed
