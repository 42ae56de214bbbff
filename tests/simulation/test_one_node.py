"""One production node with clients, under faults: nothing acked is lost, whatever happens to process, disk and network.

A failing seed is run alone with `python -m headrace.simulation --seeds 1 --start SEED`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from headrace.simulation.__main__ import Outcome, Totals, main
from headrace.simulation.groups_and_transactions import WORKLOADS
from headrace.simulation.scenario import PLAIN_WORKLOADS, Report, run_scenario

ROOT = Path(__file__).parents[2]
SEEDS = 20
SEEDS_LONG = 1000
one_process = pytest.mark.xdist_group("one-node-seeds")  # which remembers the reports: each seed is run once

REGRESSIONS = {
    "a long poll that had looked in vain looked again at once, for ever": 2,
    "changes of topics on a full disk were taken for a bug and closed the connection": 5,
    "a node flushed again after a failed sync, and left the mark of a clean stop": 12,
    "after a failed sync a restarted node took what memory showed for what the disk held": 12,
    "a start whose metadata could not be flushed never ended": 28,
    "a power cut that took nothing but the offset of a batch took its partition offline": 256,
    "a log whose first file had lost its name in a power cut began in its middle": 2224,
    "the simulated network closed a connection in good order that had never been made": 2344,
    "after a failed write a coordinator wrote on, over what was written and not published": 3665,
    "a late heartbeat's word gave away what its member was still reading": 474,
    "a repeated send whose first attempt was deleted seemed to be out of order": 756,
}


@one_process
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost(seed: int) -> None:
    assert_good(report_of(seed))


@pytest.mark.parametrize("seed", sorted(set(REGRESSIONS.values())))
def test_what_failed_once_stays_good(seed: int) -> None:
    assert_good(run_scenario(seed, workloads=PLAIN_WORKLOADS))


@cache
def report_of(seed: int) -> Report:
    return run_scenario(seed)


def assert_good(report: Report) -> None:
    assert report.is_good, "\n".join([*map(str, report.violations), "the last events:", *report.last_events[-30:]])


@one_process
def test_the_seeds_see_every_kind_of_trouble_and_enough_work() -> None:
    totals = Totals()
    for seed in range(SEEDS):
        totals.add(Outcome.of(report_of(seed)))
    assert len(totals.faults) >= 10
    assert totals.faults["power cut"] + totals.faults["power cut in the middle"] > SEEDS
    assert totals.launches > 3 * SEEDS
    assert totals.counts["acked_all"] > 100 * SEEDS
    assert min(totals.counts[name] for name in ("acked_leader", "unknown", "unknown_but_written")) > 0
    assert min(totals.counts[name] for name in ("joins", "offsets_committed", "transformed")) > 5 * SEEDS
    assert min(totals.counts[f"transactions_{fate}"] for fate in ("committed", "aborted", "unknown")) > SEEDS // 2
    assert totals.faults["late request"] > SEEDS


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_is_lost_in_a_thousand_seeds() -> None:
    assert main(["--seeds", str(SEEDS_LONG), "--jobs", str(os.cpu_count() or 1)]) == 0


def fingerprint_in_another_process(seed: int, workloads: tuple[str, ...], hash_seed: str) -> str:
    program = (
        "from headrace.simulation.scenario import run_scenario;"
        f"print(run_scenario({seed}, workloads={workloads!r}).fingerprint)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(("seed", "workloads"), [(1, PLAIN_WORKLOADS), (5, (*PLAIN_WORKLOADS, *WORKLOADS))])
def test_one_seed_gives_one_trace_whatever_the_hashes(seed: int, workloads: tuple[str, ...]) -> None:
    prints = {fingerprint_in_another_process(seed, workloads, hash_seed) for hash_seed in ("1", "2")}
    assert prints == {run_scenario(seed, workloads=workloads).fingerprint}
