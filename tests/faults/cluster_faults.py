"""What can befall the nodes of a cluster."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.faults.cluster_campaigns import ClusterCampaign
    from tests.faults.node_process import NodeProcess

LONELY_S = 3.0  # longer than a session: the node that is left has noticed by then
FREEZE_S = (1.0, 3.5)  # around the two seconds of a session


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
