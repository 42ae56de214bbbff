"""Consume, transform, produce, while the node's power is cut: what was committed stays, and nothing is there twice."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.exactly_once import NODE_CONFIGS, CopyingCampaign
from tests.faults.mounted_disks import MIB, LoopDisk, needs_mounts
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

CUTS = int(os.environ.get("HEADRACE_POWER_CUTS", "10"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
IMAGE_BYTES = 1024 * MIB  # sparse: it takes what is written to it
AGONY_S = 0.3  # the node goes on without power for up to this long, and must not ack anything


@needs_mounts
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_record_is_copied_exactly_once_through_power_cuts(tmp_path: Path) -> None:
    with (
        LoopDisk(tmp_path, IMAGE_BYTES) as disk,
        NodeProcess(disk.root / "data", tmp_path / "node.log", configs=NODE_CONFIGS) as node,
        CopyingCampaign(node.start(), tmp_path, "confluent-kafka", SEED) as campaign,
    ):
        campaign.progress()
        for _ in range(CUTS):
            time.sleep(campaign.chance.uniform(0.0, 1.5))
            node.freeze()
            disk.cut_power()
            node.thaw()
            time.sleep(campaign.chance.uniform(0.0, AGONY_S))
            node.kill()
            disk.unmount()
            disk.mount()
            node.start()
            campaign.progress()
        figures = campaign.finish()
        print(f"\n{CUTS} power cuts, seed {SEED}: {figures}")
    assert figures.aborted_copies, "nothing was aborted: this run shows nothing"
