"""Consume, transform, produce, while node and workers are killed: the output is the input, each record exactly once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.exactly_once import NODE_CONFIGS, CopyingCampaign
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("HEADRACE_KILLS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
KILL_WHILE_STARTING = 0.2
"""How often a node is killed again before it is ready."""
SUSPENSION = 0.3
"""How often a worker is suspended beside a kill: it comes back and does not know that it is late."""

both_clients = pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka"])


def copy_under_kills(tmp_path: Path, client: str, kills: int, seed: int) -> None:
    with (
        NodeProcess(tmp_path / "data", tmp_path / "node.log", configs=NODE_CONFIGS) as node,
        CopyingCampaign(node.start(), tmp_path, client, seed) as campaign,
    ):
        chance = campaign.chance
        campaign.progress()
        node_kills = 0
        for number in range(1, kills + 1):
            time.sleep(chance.uniform(0.0, 1.0))
            if number % 2:
                node_kills += 1
                kill_the_node(node, campaign)
            else:
                campaign.kill_a_worker()
            if chance.random() < SUSPENSION:
                campaign.suspend_a_worker()
            if chance.random() < 0.7:  # else the next kill may come before anything was committed
                campaign.progress()
        figures = campaign.finish()
        print(f"\n{client}: {kills} kills ({node_kills} of the node), seed {seed}: {figures}")
    assert figures.records
    assert figures.aborted_copies, "nothing was aborted: this run shows nothing"


def kill_the_node(node: NodeProcess, campaign: CopyingCampaign) -> None:
    node.kill()
    if campaign.chance.random() < KILL_WHILE_STARTING:
        node.launch()
        time.sleep(campaign.chance.uniform(0.1, 0.6))
        node.kill()
    node.start()


@both_clients
def test_each_record_is_copied_exactly_once_through_a_few_kills(tmp_path: Path, client: str) -> None:
    copy_under_kills(tmp_path, client, kills=3, seed=SEED)


@both_clients
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_record_is_copied_exactly_once_through_many_kills(tmp_path: Path, client: str) -> None:
    copy_under_kills(tmp_path, client, kills=KILLS, seed=SEED)
