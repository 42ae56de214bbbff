"""Nodes whose disk is replaced while clients write: nothing that was acked is lost, and nobody leads with nothing."""

from __future__ import annotations

import pytest

from headrace.simulation.faults import DISK_REPLACED, LOST_DISK
from headrace.simulation.scenario import run_scenario

NODES = 3
SEEDS = 1
SEEDS_LONG = 200


def assert_good(seed: int, trouble_s: float) -> int:
    """How many disks were lost."""
    report = run_scenario(seed, [LOST_DISK, "crash"], node_count=NODES, trouble_s=trouble_s)
    assert report.is_good, "\n".join([*map(str, report.violations), *report.last_events[-30:]])
    return report.faults.get(DISK_REPLACED, 0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lost_disk_loses_nothing(seed: int) -> None:
    assert assert_good(seed, trouble_s=15.0) > 0


@pytest.mark.parametrize("seed", [4, 6])
def test_a_lost_disk_beside_a_crash_of_the_others_leaves_somebody_to_lead(seed: int) -> None:
    """The last one in sync has lost its disk; the others have everything, and left before that was known."""
    report = run_scenario(seed, [LOST_DISK, "crash"], ["batches"], node_count=NODES, trouble_s=15.0)
    assert report.is_good, "\n".join([*map(str, report.violations), *report.last_events[-30:]])
    assert report.faults[DISK_REPLACED] > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_lost_disks_lose_nothing() -> None:
    for seed in range(SEEDS, SEEDS_LONG):
        assert_good(seed, trouble_s=60.0)
