"""`headrace demo` without Spark: a leader dies under load and nothing is lost; however it ends, no node is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from headrace.cli.demo import command as demo
from headrace.cli.terminal.complaints import INTERRUPTED, TERMINATED
from tests.clients.clusters import PATIENCE_S, wait_until
from tests.clients.commands import call

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

WITHOUT_SPARK: Final = """
import sys
sys.modules["pyspark"] = None
from headrace.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
STEPS: Final = (*demo.CLUSTER_STEPS, *demo.FIRST_STEPS, demo.PAYMENTS, *demo.LOSS_STEPS, *demo.RETURN_STEPS)


def begun(temporary: Path, *arguments: str) -> subprocess.Popen[str]:
    """A tour whose temporary places are made in `temporary`. All that is seen comes out of one pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_SPARK, "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def read_until(tour: subprocess.Popen[str], words: str) -> str:
    """The line that holds them."""
    assert tour.stdout is not None
    seen = []
    for line in tour.stdout:
        seen.append(line)
        if words in line:
            return line
    pytest.fail("the tour ended too soon:\n" + "".join(seen))


def nodes_in(place: Path) -> list[str]:
    """Processes that use it, as the system knows them."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "headrace serve" in line and str(place) in line]


@pytest.mark.timeout(300)
def test_a_leader_dies_and_nothing_is_lost(tmp_path: Path) -> None:
    tour = begun(tmp_path)
    seen, _ = tour.communicate(timeout=2 * PATIENCE_S)
    assert tour.returncode == 0, seen
    typed = [line.removeprefix("$ ") for line in seen.splitlines() if line.startswith("$ ")]
    assert typed == [step.line for step in STEPS]

    victim = re.search(r"# Node (\d) leads (payments-0.*)\. It is killed now", seen)
    assert victim is not None, seen
    now = re.search(r"payments-0: node (\d) leads now; in sync are (\d) and (\d)\.\n +Writes paused for [\d.]+ s", seen)
    assert now is not None, seen
    assert victim[1] not in now.groups()
    assert f"node {victim[1]} is away" in seen
    assert f"node {victim[1]} is in sync again" in seen
    counted = re.search(r"sent ([\d,]+), acknowledged ([\d,]+), failed 0\n", seen)
    assert counted is not None, seen
    assert counted[1] == counted[2] != "0"
    assert "acknowledged and lost: 0. In the log more than once: 0." in seen
    assert f"Partition 0: Leader={victim[1]}, ISR=[{victim[1]}," in seen
    assert seen.endswith("\nThe tour goes on with a pipeline on Spark after: pip install 'headrace[spark]'\n")
    assert not list(tmp_path.glob("headrace-demo-*"))


@pytest.mark.timeout(300)
def test_ctrl_c_ends_all_nodes(tmp_path: Path) -> None:
    tour = begun(tmp_path)
    try:
        read_until(tour, "read by the group")
        assert len(nodes_in(tmp_path)) == 3
        tour.send_signal(signal.SIGINT)
        assert tour.wait(PATIENCE_S) == INTERRUPTED
    finally:
        tour.terminate()
        rest, _ = tour.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in rest
    assert not nodes_in(tmp_path)
    assert not list(tmp_path.glob("headrace-demo-*"))


def test_a_short_tour_that_stays_ends_with_its_node(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    tour = begun(tmp_path, "--nodes", "1", "--stay", "--dir", str(place))
    try:
        address = read_until(tour, "export HEADRACE").strip().partition("=")[2]
        assert "orders" in call(address, "topics", "list").out
        tour.send_signal(signal.SIGTERM)
        assert tour.wait(PATIENCE_S) == TERMINATED
    finally:
        tour.terminate()
        tour.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not nodes_in(place), "its node is gone")


def test_a_place_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    tour = begun(tmp_path, "--dir", str(tmp_path))
    seen, _ = tour.communicate(timeout=PATIENCE_S)
    assert (tour.returncode, seen.splitlines()[-1]) == (1, "hint: give another --dir")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
