"""`headrace demo` goes from start to end, with Spark and without, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from headrace.cli.demo import FIRST_STEPS, ORDERS_FILE, PIPELINE_FILE, SPARK_STEPS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S: Final = 580.0  # against hangs only; a step starts a JVM
DEMO: Final = (sys.executable, "-m", "headrace", "demo")
WITHOUT_SPARK: Final = """
import sys
sys.modules["pyspark"] = None
from headrace.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


def take(command: list[str], temporary: Path) -> tuple[int, str]:
    """Exit code, and everything that is seen. Temporary places are made in `temporary`."""
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.mark.timeout(600)
def test_the_whole_tour(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    code, seen = take([*DEMO, "--dir", str(place)], tmp_path)
    assert code == 0, seen
    typed = [line.removeprefix("$ ") for line in seen.splitlines() if line.startswith("$ ")]
    assert typed == [step.line for step in (*FIRST_STEPS, *SPARK_STEPS)]
    assert '{"minute":"2026-01-01T12:00:00.000Z","sku":"tea","orders":2,"amount":7.0}' in seen
    assert "headrace-dlq-reason=undecodable: amount: " in seen
    assert "headrace-dlq-reason=expectation 'positive amount' is broken: amount > 0" in seen
    assert "lag of pipeline.orders-per-minute: 0" in seen
    assert {ORDERS_FILE, PIPELINE_FILE, "data", "node.log"} <= {path.name for path in place.iterdir()}


def test_without_spark_it_says_how_to_go_on(tmp_path: Path) -> None:
    code, seen = take([sys.executable, "-c", WITHOUT_SPARK, "demo"], tmp_path)
    assert code == 0, seen
    typed = [line.removeprefix("$ ") for line in seen.splitlines() if line.startswith("$ ")]
    assert typed == [step.line for step in FIRST_STEPS]
    assert seen.endswith("\nThe tour goes on with a pipeline on Spark after: pip install 'headrace[spark]'\n")
    assert not list(tmp_path.glob("headrace-demo-*"))


def test_a_place_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    code, seen = take([*DEMO, "--dir", str(tmp_path)], tmp_path)
    assert (code, seen.splitlines()[-1]) == (1, "hint: give another --dir")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_tour_that_stays_ends_with_its_node(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    command = [sys.executable, "-c", WITHOUT_SPARK, "demo", "--stay", "--dir", str(place)]
    tour = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert tour.stderr is not None
        lines = iter(tour.stderr.readline, "")
        address = next(line for line in lines if "export HEADRACE" in line).strip().partition("=")[2]
        listed = subprocess.run(
            [sys.executable, "-m", "headrace", "topics", "list", "--bootstrap-server", address],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert "orders" in listed.stdout
        tour.send_signal(signal.SIGTERM)
        assert tour.wait(PATIENCE_S) == 143
    finally:
        tour.kill()
        tour.communicate()
    host, _, port = address.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
