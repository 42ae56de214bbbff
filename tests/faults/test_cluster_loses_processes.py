"""Nodes of a cluster are killed or stand still under load: nothing acked by all is lost, and others take over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.cluster_campaigns import ClusterCampaign
from tests.faults.cluster_faults import (
    controller_frozen,
    controller_killed,
    leader_frozen,
    leader_killed,
    two_of_three_killed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.cluster_campaigns import Fault

pytestmark = pytest.mark.xdist_group("cluster")

ROUNDS = int(os.environ.get("HEADRACE_ROUNDS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
FAULTS = {
    fault.__name__: fault
    for fault in (leader_killed, controller_killed, two_of_three_killed, leader_frozen, controller_frozen)
}


def test_nothing_acked_is_lost_by_any_of_them(tmp_path: Path) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        for fault in FAULTS.values():
            campaign.suffer(fault)
        print(campaign.report(campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_nothing_acked_is_lost_again_and_again(tmp_path: Path, fault: Fault) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        campaign.suffer(fault, ROUNDS)
        print(campaign.report(campaign.finish()))
