"""A standalone Spark cluster whose two workers take themselves for different hosts.

Spark runs a second copy of a straggling task only on another host than the first, and not at all with a master of
`local`. All addresses of 127.0.0.0/8 are this machine, so two of them are two hosts.
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyspark

from tests.ports import free_port
from tests.spark.process_family import Family

if TYPE_CHECKING:
    from collections.abc import Mapping

START_S: Final = 300.0  # against hangs only
MASTER_HOST: Final = "127.0.0.1"
WORKER_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
CORES: Final = 2  # per worker; an application takes one of each, so that the next finds some before the last has gone
WORKER_MEMORY: Final = "3g"
SPARK_CLASS: Final = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_DAEMON: Final = "org.apache.spark.deploy"


class TwoHostCluster:
    """Use it in a `with` block. It outlives the applications that run on it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log_path = home / "cluster.log"
        self._families: dict[str, Family] = {}
        self.master = f"spark://{MASTER_HOST}:{free_port()}"

    @property
    def conf(self) -> Mapping[str, str]:
        """For an application with one executor of one core on each host."""
        return {
            "spark.driver.host": MASTER_HOST,
            "spark.driver.bindAddress": MASTER_HOST,
            "spark.executor.cores": "1",
            "spark.cores.max": str(len(WORKER_HOSTS)),
            "spark.executor.memory": "768m",
        }

    def __enter__(self) -> Self:
        port = self.master.rpartition(":")[2]
        try:
            self._start(MASTER_HOST, "master.Master", "--host", MASTER_HOST, "--port", port, "--webui-port", "0")
            for host in WORKER_HOSTS:
                work_dir = str(self._work_dir(host))
                size = ("--cores", str(CORES), "--memory", WORKER_MEMORY)
                address = ("--host", host, "--webui-port", "0", "--work-dir", work_dir)
                self._start(host, "worker.Worker", *address, *size, self.master)
            self._wait_for("Successfully registered with master", len(WORKER_HOSTS))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for family in self._families.values():
            family.kill_all()

    def kill_host(self, host: str) -> None:
        """Worker, executors and their Python at once, as if the machine had failed."""
        self._families[host].kill_all()

    def has_run_a_task(self, host: str) -> bool:
        """Or is about to: what its executors wrote about it says so."""
        logs = self._work_dir(host).glob("app-*/*/stderr")
        return any("Running task" in log.read_text(errors="replace") for log in logs)

    def wait_until_missed(self, host: str) -> None:
        """Until the master has seen that a host is gone."""
        self._wait_for(f"Removing worker worker-[0-9]+-{re.escape(host)}-", 1)

    def _work_dir(self, host: str) -> Path:
        return self._home / f"work-{host}"

    def _start(self, host: str, daemon: str, *arguments: str) -> None:
        family = Family(self._log_path)
        self._families[host] = family
        family.start([SPARK_CLASS, f"{_DAEMON}.{daemon}", *arguments])

    def _wait_for(self, sign: str, count: int) -> None:
        deadline_s = time.monotonic() + START_S
        while len(re.findall(sign, self._log_path.read_text())) < count:
            assert time.monotonic() < deadline_s, f"{sign!r} did not come about:\n{self._log_path.read_text()}"
            time.sleep(0.1)


def can_be_two_hosts() -> bool:
    """Not on every system does an address of the loopback network work without being set up."""
    try:
        for host in WORKER_HOSTS:
            with socket.socket() as probe:
                probe.bind((host, 0))
    except OSError:
        return False
    return True
