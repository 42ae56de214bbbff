"""What can befall the nodes of a cluster."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.faults.log_readers import partition_directories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.faults.cluster_campaigns import ClusterCampaign
    from tests.faults.node_process import NodeProcess

LONELY_S = 3.0  # longer than a session: the node that is left has noticed by then
FREEZE_S = (1.0, 3.5)  # around the two seconds of a session
TORN_BYTES = 2_000
STARTS_APART_S = (0.0, 1.5)


# ---- SIGKILL


def leader_killed(campaign: ClusterCampaign) -> AbstractContextManager[float]:
    return _killed(campaign.any_leader())


def controller_killed(campaign: ClusterCampaign) -> AbstractContextManager[float]:
    return _killed(campaign.controller())


@contextmanager
def _killed(victim: NodeProcess) -> Iterator[float]:
    began_s = time.monotonic()
    victim.kill()
    yield began_s
    victim.start()


@contextmanager
def two_of_three_killed(campaign: ClusterCampaign) -> Iterator[float]:
    """Nothing is acked by the one that is left. The cluster should serve again once a second one starts."""
    first, second = campaign.chance.sample(list(campaign.cluster.nodes.values()), 2)
    first.kill()
    second.kill()
    acked = campaign.acked_meanwhile(LONELY_S)
    assert acked == 0, f"a node that was alone has acked {acked} sends with acks=all"
    began_s = time.monotonic()
    second.launch()
    yield began_s
    second.wait_ready()
    first.start()


# ---- SIGSTOP


def leader_frozen(campaign: ClusterCampaign) -> AbstractContextManager[float]:
    return _frozen(campaign, campaign.any_leader())


def controller_frozen(campaign: ClusterCampaign) -> AbstractContextManager[float]:
    return _frozen(campaign, campaign.controller())


@contextmanager
def _frozen(campaign: ClusterCampaign, victim: NodeProcess) -> Iterator[float]:
    """It comes back before or after others have taken over, and knows nothing of the time between."""
    began_s = time.monotonic()
    victim.freeze()
    try:
        time.sleep(campaign.chance.uniform(*FREEZE_S))
    finally:
        victim.thaw()
    yield began_s


# ---- SIGKILL of all, and a disk that has not kept what it promised


@contextmanager
def torn_disk_after_an_outage(campaign: ClusterCampaign) -> Iterator[float]:
    """One has lost the ends of its logs. It is the first that is back."""
    nodes, torn = campaign.cluster.nodes.values(), campaign.chance.choice(list(campaign.cluster.nodes.values()))
    places = partition_directories(campaign.cluster.bootstrap, torn.data_dir, campaign.partitions)
    for node in nodes:
        node.kill()
    for directory in places.values():
        log = max(directory.glob("*.log"))
        os.truncate(log, max(0, log.stat().st_size - TORN_BYTES))
    yield _back(campaign, torn)
    for node in nodes:
        node.wait_ready()


@contextmanager
def older_disk_after_an_outage(campaign: ClusterCampaign) -> Iterator[float]:
    """One comes back with a copy of its data directory that was made in an earlier outage. It is the first."""
    nodes, older = list(campaign.cluster.nodes.values()), campaign.chance.choice(list(campaign.cluster.nodes.values()))
    for node in nodes:
        node.kill()
    copy = older.data_dir.with_name("copy")
    shutil.copytree(older.data_dir, copy)
    campaign.cluster.start()
    campaign.cluster.wait_in_sync(campaign.partitions)
    campaign.wait_for_acks(10)
    for node in nodes:
        node.kill()
    shutil.rmtree(older.data_dir)
    copy.rename(older.data_dir)
    yield _back(campaign, older)
    for node in nodes:
        node.wait_ready()


def _back(campaign: ClusterCampaign, first: NodeProcess) -> float:
    """All are started, one after the other. Returns when the last one was."""
    others = campaign.all_but(first)
    campaign.chance.shuffle(others)
    for node in (first, *others):
        node.launch()
        time.sleep(campaign.chance.uniform(*STARTS_APART_S))
    return time.monotonic()
