"""`headrace` commands for tests: in this process, where a Spark session is active, or as one that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from headrace.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from headrace.testing import Broker


class Commands:
    """Runs `headrace` commands in this process, where a Spark session is active already."""

    def __init__(self, broker: Broker, captured: pytest.CaptureFixture[bytes]) -> None:
        self._servers = broker.bootstrap_servers
        self._captured = captured

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self._captured.readouterr()
        code = run([str(argument) for argument in (*arguments, "--bootstrap-server", self._servers)])
        shown = self._captured.readouterr()
        return code, shown.out.decode(), shown.err.decode()

    def json(self, *arguments: object) -> dict[str, Any]:
        code, out, err = self(*arguments, "--format", "json")
        assert code == 0, err
        answer: dict[str, Any] = json.loads(out)
        return answer


@contextmanager
def driver(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command with a Spark of its own. What is left of it, JVM and workers, is killed at the end."""
    command = [sys.executable, "-m", "headrace", *(str(argument) for argument in arguments)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
