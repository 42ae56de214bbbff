"""Three production nodes with clients, under faults: what was acked survives the loss of any of them, and of all.

A failing seed is run alone with `python -m headrace.simulation --nodes 3 --seeds 1 --start SEED`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from headrace.simulation.__main__ import Outcome, Totals, main
from headrace.simulation.scenario import Report, run_scenario

ROOT = Path(__file__).parents[2]
NODES = 3
SEEDS = 4
SEEDS_LONG = int(os.environ.get("HEADRACE_CLUSTER_SEEDS", "1000"))
TROUBLE_S = 8.0  # enough for a failover or two; the long runs have five minutes
HASHED_SEED = 1
one_process = pytest.mark.xdist_group("cluster-seeds")  # which remembers the reports: each seed is run once


@one_process
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost(seed: int) -> None:
    assert_good(report_of(seed))


@cache
def report_of(seed: int) -> Report:
    return run_scenario(seed, node_count=NODES, trouble_s=TROUBLE_S)


def assert_good(report: Report) -> None:
    assert report.is_good, "\n".join([*map(str, report.violations), "the last events:", *report.last_events[-30:]])


def test_a_session_that_ends_while_the_judge_asks_coordinators_is_no_violation() -> None:
    """Here that of a dead member ended after its group was asked for, and before the nodes went down."""
    assert_good(run_scenario(2104, node_count=NODES, trouble_s=20.0))


def test_a_session_that_ends_while_the_nodes_come_back_is_no_violation() -> None:
    """Here two static members were gone, and the nodes took longer to be ready than their sessions last."""
    assert_good(run_scenario(5032, node_count=NODES, trouble_s=20.0))


def test_a_partition_that_is_given_up_finds_an_owner_though_the_leader_dies_in_between() -> None:
    """Here the leader of a cooperative group was to give up two partitions, and came back as a static member instead:
    with nothing to give up, so that nobody had a reason to join again."""
    assert_good(run_scenario(5114, node_count=NODES, trouble_s=20.0))


def test_a_replica_that_ends_inside_the_leaders_first_batch_comes_back() -> None:
    """Here it had batches of an earlier leader, and the records that showed where they part had been deleted."""
    assert_good(run_scenario(5045, node_count=NODES, trouble_s=20.0))


@one_process
def test_the_seeds_see_every_kind_of_trouble_and_enough_work() -> None:
    totals = Totals()
    for seed in range(SEEDS):
        totals.add(Outcome.of(report_of(seed)))
    assert len(totals.faults) >= 5
    assert totals.launches > NODES * SEEDS
    assert totals.counts["acked_all"] > 5 * SEEDS
    assert min(totals.counts[name] for name in ("joins", "offsets_committed", "transactions_committed")) > 0


@pytest.mark.long
@pytest.mark.timeout(36_000)
def test_nothing_is_lost_in_a_thousand_seeds_of_five_minutes() -> None:
    assert main(["--nodes", str(NODES), "--seeds", str(SEEDS_LONG), "--jobs", str(os.cpu_count() or 1)]) == 0


def fingerprint_in_another_process(seed: int, hash_seed: str) -> str:
    program = (
        "from headrace.simulation.scenario import run_scenario;"
        f"print(run_scenario({seed}, node_count={NODES}, trouble_s={TROUBLE_S}).fingerprint)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@one_process
def test_one_seed_gives_one_trace_whatever_the_hashes() -> None:
    prints = {fingerprint_in_another_process(HASHED_SEED, hash_seed) for hash_seed in ("1", "2")}
    assert prints == {report_of(HASHED_SEED).fingerprint}
