"""All nodes are killed under load, and one comes back with a disk that has not kept what it promised.

A campaign asserts by itself: after each fault that service is back, in `finish` that every acked record is there once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.cluster_campaigns import ClusterCampaign
from tests.faults.cluster_faults import older_disk_after_an_outage, torn_disk_after_an_outage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("cluster")

ROUNDS = int(os.environ.get("HEADRACE_ROUNDS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
FAULTS = {"torn disk": torn_disk_after_an_outage, "older disk": older_disk_after_an_outage}


def test_nothing_acked_is_lost_by_one_bad_disk(tmp_path: Path) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        for name, fault in FAULTS.items():
            campaign.suffer(name, fault)
        print(campaign.report(campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_acked_is_lost_again_and_again(tmp_path: Path, name: str) -> None:
    with ClusterCampaign(tmp_path, seed=SEED) as campaign:
        campaign.suffer(name, FAULTS[name], ROUNDS)
        print(campaign.report(campaign.finish()))
