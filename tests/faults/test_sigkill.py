"""SIGKILL at random points under load: nothing acked is lost, nothing is there twice, the node always comes back."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.campaigns import NODE_CONFIGS, Campaign
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("HEADRACE_KILLS", "50"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
KILL_WHILE_STARTING = 0.2
"""How often a node is killed before it is ready: recovery may be interrupted too."""
CLEAN_STOP = 0.1
"""How often it is also stopped in peace: the next crash then finds checkpoints of another kind."""
LONG_LIFE_EVERY = 20
LONG_LIFE_S = 33.0  # longer than the time between two checkpoints


def kill_again_and_again(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with NodeProcess(tmp_path / "data", tmp_path / "node.log", configs=NODE_CONFIGS) as node:
        campaign = Campaign(node.start(), seed)
        campaign.start()
        for number in range(1, kills + 1):
            time.sleep(LONG_LIFE_S if number % LONG_LIFE_EVERY == 0 else chance.uniform(0.0, 1.5))
            node.kill()
            if chance.random() < KILL_WHILE_STARTING:
                node.launch()
                time.sleep(chance.uniform(0.1, 0.6))
                node.kill()
            node.start()
            if chance.random() < CLEAN_STOP:
                assert node.stop() == 0
                node.start()
            if chance.random() < 0.7:  # else the next kill may come before anything was written
                campaign.progress()
        figures = campaign.finish()
        starts_s = sorted(node.starts_s)
        print(
            f"\n{kills} kills, seed {seed}: {figures}; start to ready: median "
            f"{starts_s[len(starts_s) // 2]:.2f} s, longest {starts_s[-1]:.2f} s"
        )
    assert figures.acked_all > kills * 10


def test_nothing_acked_is_lost_by_a_few_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=5, seed=SEED)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acked_is_lost_by_many_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=KILLS, seed=SEED)
