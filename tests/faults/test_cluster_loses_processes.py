"""Nodes of a cluster are killed or stand still under load: nothing acked by all is lost, and others take over.

A campaign asserts by itself: after each fault that service is back, in `finish` that every acked record is there once.
"""

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

pytestmark = pytest.mark.xdist_group("cluster")

ROUNDS = int(os.environ.get("HEADRACE_ROUNDS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
FAULTS = {
    "leader killed": leader_killed,
    "controller killed": controller_killed,
    "two of three killed": two_of_three_killed,
    "leader frozen": leader_frozen,
    "controller frozen": controller_frozen,
}
SHORT = ("leader killed", "controller killed", "two of three killed", "leader frozen")


def test_nothing_acked_is_lost_by_one_of_each(tmp_path: Path) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        for name in SHORT:
            campaign.suffer(name, FAULTS[name])
        print(campaign.report(campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_acked_is_lost_again_and_again(tmp_path: Path, name: str) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        campaign.suffer(name, FAULTS[name], ROUNDS)
        print(campaign.report(campaign.finish()))
