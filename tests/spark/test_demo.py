"""`headrace demo` goes from start to end, with Spark. What it is without is in tests/clients/test_demo_tour.py."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from headrace.cli.demo import command as demo

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S: Final = 580.0  # against hangs only; a step starts a JVM
DEMO: Final = (sys.executable, "-m", "headrace", "demo")
STEPS: Final = (
    *demo.CLUSTER_STEPS,
    *demo.FIRST_STEPS,
    demo.PAYMENTS,
    *demo.LOSS_STEPS,
    *demo.RETURN_STEPS,
    *demo.SPARK_STEPS,
)


@pytest.mark.timeout(600)
def test_the_whole_tour(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    ended = subprocess.run(
        [*DEMO, "--dir", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    seen = ended.stdout
    assert ended.returncode == 0, seen
    typed = [line.removeprefix("$ ") for line in seen.splitlines() if line.startswith("$ ")]
    assert typed == [step.line for step in STEPS]
    assert "acknowledged and lost: 0." in seen
    assert '{"minute":"2026-01-01T12:00:00.000Z","sku":"tea","orders":2,"amount":7.0}' in seen
    assert "headrace-dlq-reason=undecodable: amount: " in seen
    assert "headrace-dlq-reason=expectation 'positive amount' is broken: amount > 0" in seen
    assert "lag of pipeline.orders-per-minute: 0" in seen
    kept = {demo.ORDERS_FILE, demo.PIPELINE_FILE, "node-1", "node-2", "node-3", "node-1.log"}
    assert kept <= {path.name for path in place.iterdir()}
