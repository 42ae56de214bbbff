"""Nodes whose disk is replaced while clients write: nothing that was acked is lost, and nobody leads with nothing."""

from __future__ import annotations

import asyncio

import pytest

from headrace.simulation.environment.universe import Universe, run
from headrace.simulation.faults.lost_disks import DISK_REPLACED, LOST_DISK
from headrace.simulation.scenario import run_scenario
from tests.simulation.ready_clusters import controller_and_others, create_assigned, ready_cluster

NODES = 3
SEEDS = 1
SEEDS_LONG = 200
LIMIT_S = 120.0
LOOK_S = 0.05


def assert_good(seed: int, trouble_s: float) -> int:
    """How many disks were lost."""
    report = run_scenario(seed, [LOST_DISK, "crash"], node_count=NODES, trouble_s=trouble_s)
    assert report.is_good, "\n".join([*map(str, report.violations), *report.last_events[-30:]])
    return report.faults.get(DISK_REPLACED, 0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lost_disk_loses_nothing(seed: int) -> None:
    assert assert_good(seed, trouble_s=15.0) > 0


def test_what_was_deleted_does_not_come_back_with_a_copy_that_was_away() -> None:
    """A copy that was not in sync when records were deleted enters the set only once it has deleted them, too."""
    assert assert_good(27, trouble_s=30.0) > 0


@pytest.mark.parametrize("seed", [4, 6])
def test_a_lost_disk_beside_a_crash_of_the_others_leaves_somebody_to_lead(seed: int) -> None:
    """The last one in sync has lost its disk; the others have everything, and left before that was known."""
    report = run_scenario(seed, [LOST_DISK, "crash"], ["batches"], node_count=NODES, trouble_s=15.0)
    assert report.is_good, "\n".join([*map(str, report.violations), *report.last_events[-30:]])
    assert report.faults[DISK_REPLACED] > 0


def test_a_node_with_a_new_disk_says_once_what_no_copy_is_left_of(caplog: pytest.LogCaptureFixture) -> None:
    async def play(universe: Universe) -> None:
        cluster = await ready_cluster(universe)
        controller, (unlucky, other) = controller_and_others(cluster)
        replicas = [(unlucky.node_id,)] * 7
        await controller.host.start(create_assigned(controller, "alone", replicas), "controller")
        both = [(unlucky.node_id, other.node_id)]
        await controller.host.start(create_assigned(controller, "both", both), "controller")
        while len(unlucky.node.topics.partitions()) < 8:
            await asyncio.sleep(LOOK_S)
        unlucky.host.power_cut()
        unlucky.host.replace_disk()
        for _ in range(2):
            unlucky.launch()
            await cluster.wait_ready()
            unlucky.host.crash()

    run(play, seed=1, limit_s=LIMIT_S)
    (said,) = (it.getMessage() for it in caplog.records if "no copy is left" in it.getMessage())
    assert "of 7 partitions of this node" in said
    assert "(alone-0, alone-1, alone-2, alone-3, alone-4, …)" in said
    assert "elect-leaders --unclean" in said


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_lost_disks_lose_nothing() -> None:
    for seed in range(SEEDS, SEEDS_LONG):
        assert_good(seed, trouble_s=60.0)
