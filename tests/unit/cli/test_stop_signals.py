"""What Ctrl-C and SIGTERM do, once and twice, to a process that is there to be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from headrace.cli.terminal.complaints import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 120  # against hangs only
SCRIPT = """
import asyncio, sys
from headrace.cli.terminal.stop_signals import stop_signal

async def serve():
    stop = stop_signal(lambda: print("last act", flush=True))
    print("ready", flush=True)
    await stop
    print("stopping", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("stopped", flush=True)

asyncio.run(serve())
print("over", flush=True)
sys.stdin.readline()
"""


class Served:
    def __init__(self, running: subprocess.Popen[str]) -> None:
        self._running = running

    def says(self) -> str:
        assert self._running.stdout is not None
        return self._running.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        os.kill(self._running.pid, number)

    def may_go_on(self) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write("\n")
        self._running.stdin.flush()

    def ends(self) -> int:
        return self._running.wait(PATIENCE_S)


@pytest.fixture
def served() -> Iterator[Served]:
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            one = Served(running)
            assert one.says() == "ready"
            yield one
        finally:
            running.kill()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_sigterm_does_not_disturb_a_stop(served: Served, first: signal.Signals) -> None:
    served.send(first)
    assert served.says() == "stopping"
    served.send(signal.SIGTERM)
    served.send(signal.SIGTERM)
    served.may_go_on()
    assert (served.says(), served.says()) == ("stopped", "over")
    served.send(signal.SIGTERM)  # the loop is closed; Python is about to end
    served.may_go_on()
    assert served.ends() == 0


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_during_a_stop_ends_it_at_once(served: Served, first: signal.Signals) -> None:
    served.send(first)
    assert served.says() == "stopping"
    served.send(signal.SIGINT)
    assert served.says() == "last act"
    assert served.ends() == INTERRUPTED


def test_many_sigterms_in_a_row_are_one(served: Served) -> None:
    for _ in range(50):
        served.send(signal.SIGTERM)
        time.sleep(0.001)
    assert served.says() == "stopping"
    served.may_go_on()
    served.may_go_on()
    assert served.ends() == 0
