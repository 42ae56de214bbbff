"""The power is cut under load: what was acked with acks=all is on the device, and the node comes back by itself."""

from __future__ import annotations

import os
import random
import time
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.faults.campaigns import NODE_CONFIGS, Campaign
from tests.faults.mounted_disks import JOURNAL_MODES, MIB, LoopDisk, needs_mounts
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

CUTS = int(os.environ.get("HEADRACE_POWER_CUTS", "20"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
IMAGE_BYTES = 1024 * MIB  # sparse: it takes what is written to it
AGONY_S = 0.3  # the node goes on without power for up to this long, and must not ack anything


def cut_again_and_again(tmp_path: Path, cuts: int, seed: int) -> None:
    chance = random.Random(seed)
    modes = cycle(JOURNAL_MODES)
    cut_bytes = 0
    with (
        LoopDisk(tmp_path, IMAGE_BYTES) as disk,
        NodeProcess(disk.root / "data", tmp_path / "node.log", configs=NODE_CONFIGS) as node,
    ):
        campaign = Campaign(node.start(), seed)
        campaign.start()
        for _ in range(cuts):
            time.sleep(chance.uniform(0.0, 1.5))
            node.freeze()
            disk.cut_power()
            node.thaw()
            time.sleep(chance.uniform(0.0, AGONY_S))
            node.kill()
            disk.unmount()
            disk.mount(next(modes))
            node.start()
            cut_bytes += sum(int(line.split(" bytes that were")[0].split()[-1]) for line in _cuts(node))
            campaign.progress()
        figures = campaign.finish()
        starts_s = sorted(node.starts_s)
        print(
            f"\n{cuts} power cuts, seed {seed}: {figures}; torn bytes cut at start: {cut_bytes}; start to ready: "
            f"median {starts_s[len(starts_s) // 2]:.2f} s, longest {starts_s[-1]:.2f} s"
        )
    assert figures.acked_all > cuts * 10


def _cuts(node: NodeProcess) -> list[str]:
    return [line for line in node.log.splitlines() if " bytes that were never flushed are gone" in line]


@needs_mounts
def test_nothing_acked_is_lost_by_two_power_cuts(tmp_path: Path) -> None:
    cut_again_and_again(tmp_path, cuts=2, seed=SEED)


@needs_mounts
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acked_is_lost_by_many_power_cuts(tmp_path: Path) -> None:
    cut_again_and_again(tmp_path, cuts=CUTS, seed=SEED)
