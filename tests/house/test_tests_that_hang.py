"""The suite's own limits: a test that hangs fails, whatever it hangs in, and the others and the run do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0

HANGING = """
import asyncio
import ctypes
import subprocess
import sys
import threading

import pytest
from hypothesis import given, strategies

pytestmark = pytest.mark.timeout(1)


def wait_for_ever():
    threading.Event().wait()


def test_plain():
    wait_for_ever()


def test_that_takes_it_for_ctrl_c():
    try:
        wait_for_ever()
    except KeyboardInterrupt:
        print("stopped")


def test_with_a_child():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.read()
        finally:
            child.kill()


@given(strategies.integers())
def test_with_examples(number):
    wait_for_ever()


async def test_in_a_loop_at_rest():
    await asyncio.Event().wait()


async def test_in_a_busy_loop():
    async def turn_for_ever():
        while True:
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn_for_ever())
    await asyncio.Event().wait()


async def test_that_is_not_cancelled():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@pytest.fixture
def is_open():
    yield
    print("closed all the same")


@pytest.fixture
def never_closed(is_open):
    yield
    wait_for_ever()


@pytest.fixture
async def never_closed_in_a_loop(is_open):
    yield
    await asyncio.Event().wait()


def test_that_fails_and_hangs_after_it(never_closed):
    assert False


def test_in_a_fixture(never_closed):
    pass


async def test_in_a_fixture_in_a_loop(never_closed_in_a_loop):
    pass


def lock_twice(library):
    mutex = ctypes.create_string_buffer(64)  # all zeros: an open one
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def test_outside_of_python():
    lock_twice(ctypes.CDLL(None))


def test_outside_of_python_with_its_lock():
    lock_twice(ctypes.PyDLL(None))


@pytest.fixture
def never_closed_outside_of_python():
    yield
    lock_twice(ctypes.CDLL(None))


def test_that_fails_and_hangs_outside_of_python(never_closed_outside_of_python):
    assert False
"""

HONEST = """
import pytest


@pytest.mark.parametrize("number", range(20))
def test_that_passes(number):
    pass


@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(5))
def test_of_a_group(number):
    pass
"""

LOST = """
import os

import pytest


def test_at_the_beginning():
    pass


@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(3))
def test_that_ends_its_process(number):
    if number == 1:
        os._exit(1)
"""


def pytest_in_processes(folder: Path, plugins: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
    """A run that never ends is killed with all its workers, and fails here."""
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "--dist=loadgroup", "--junitxml=report.xml", *options]
    command += [word for plugin in plugins for word in ("-p", plugin)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=PATIENCE_S)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, running.returncode, output)


def outcomes(folder: Path) -> dict[str, set[str]]:
    """What the report says about each test: nothing, or `failure` and `error`."""
    told: dict[str, set[str]] = {}
    for case in ET.parse(folder / "report.xml").iter("testcase"):
        told.setdefault(case.attrib["name"], set()).update(
            part.tag for part in case if part.tag in {"failure", "error"}
        )
    return told


def test_whatever_hangs_fails_and_the_rest_passes(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "test_honest.py").write_text(HONEST)
    ran = pytest_in_processes(tmp_path, ["tests.time_limits", "tests.lost_workers"], "-n2", "-otimeout_grace=2")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    told = outcomes(tmp_path)
    honest = {name for name in told if name.startswith(("test_that_passes", "test_of_a_group"))}
    assert len(honest) == 25, ran.stdout
    assert {name for name, tags in told.items() if not tags} == honest, ran.stdout
    assert len(told) - len(honest) == HANGING.count("def test_")
    assert "lock_twice" in ran.stdout, "the last words of a lost worker say where it stood"
    assert ran.stdout.count("\nclosed all the same") == 3, "other fixtures are closed"
    assert "turn_for_ever" in ran.stdout, "the tasks of a loop are shown"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_lost_worker_costs_the_test_that_it_was_at(tmp_path: Path, workers: int) -> None:
    (tmp_path / "test_honest.py").write_text(HONEST)
    (tmp_path / "test_first.py").write_text(LOST)
    ran = pytest_in_processes(tmp_path, ["tests.lost_workers"], f"-n{workers}")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    told = outcomes(tmp_path)
    assert [name for name, tags in told.items() if tags] == ["test_that_ends_its_process[1]@together"], ran.stdout
    assert len(told) == 29, ran.stdout


def test_workers_that_get_no_more_work_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_honest.py").write_text(HONEST)
    (tmp_path / "forgetful_sharing.py").write_text(
        """
import pytest
from xdist.scheduler import LoadGroupScheduling


class Forgetful(LoadGroupScheduling):
    def _reschedule(self, node):
        pass


def pytest_xdist_make_scheduler(config, log):
    return Forgetful(config, log)
"""
    )
    plugins = ["forgetful_sharing", "tests.time_limits"]
    ran = pytest_in_processes(tmp_path, plugins, "-n2", "-otimeout_idle=2", "--max-worker-restart=1")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    assert "maximum crashed workers reached" in ran.stdout


def test_children_of_tests_heed_ctrl_c_though_the_run_may_not(tmp_path: Path) -> None:
    (tmp_path / "test_child.py").write_text(
        """
import signal
import subprocess
import sys


def test_a_child_ends():
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"], stdout=-1)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == -signal.SIGINT
"""
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ran = pytest_in_processes(tmp_path, ["tests.conftest"], "-n1")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout
