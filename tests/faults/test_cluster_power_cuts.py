"""The power of one node's machine, or of all, is cut under load: what was acked by all is on some device, and stays."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.faults.cluster_campaigns import NODE_COUNT, ClusterCampaign
from tests.faults.mounted_disks import JOURNAL_MODES, MIB, LoopDisk, needs_mounts
from tests.faults.node_clusters import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.node_process import NodeProcess

pytestmark = [needs_mounts, pytest.mark.xdist_group("cluster")]

ROUNDS = int(os.environ.get("HEADRACE_ROUNDS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
IMAGE_BYTES = 512 * MIB  # sparse: it takes what is written to it
AGONY_S = 0.3  # a node goes on without power for up to this long, and must not ack anything


class CampaignOnDisks:
    """A campaign whose nodes each have a disk of their own. Use it with `with`."""

    def __init__(self, home: Path, seed: int) -> None:
        self._home = home
        self._seed = seed
        self._modes = cycle(JOURNAL_MODES)
        self._ending = ExitStack()

    def __enter__(self) -> CampaignOnDisks:
        with ExitStack() as starting:
            places = [self._home / f"machine-{number}" for number in range(1, NODE_COUNT + 1)]
            for place in places:
                place.mkdir()
            disks = [starting.enter_context(LoopDisk(place, IMAGE_BYTES)) for place in places]
            sites = [Site(disk.root / "data") for disk in disks]
            self.campaign = starting.enter_context(ClusterCampaign(self._home, sites, self._seed))
            self._disks = dict(zip(self.campaign.cluster.nodes.values(), disks, strict=True))
            self._ending = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    @contextmanager
    def of_one(self, campaign: ClusterCampaign) -> Iterator[float]:
        """Of a leader. The network does not tell: its process goes on a little, and then is gone."""
        victim = campaign.any_leader()
        began_s = time.monotonic()
        self._cut_power([victim])
        yield began_s
        self._restore(victim)
        victim.start()

    @contextmanager
    def of_all(self, campaign: ClusterCampaign) -> Iterator[float]:
        """At once. The cluster should serve again when its nodes start."""
        nodes = list(self._disks)
        self._cut_power(nodes)
        for node in nodes:
            self._restore(node)
        began_s = time.monotonic()
        campaign.cluster.start()
        yield began_s

    def _cut_power(self, victims: list[NodeProcess]) -> None:
        """Nobody may be writing meanwhile: see `LoopDisk.cut_power`. Then they go on without power, and find out."""
        for victim in victims:
            victim.freeze()
        for victim in victims:
            self._disks[victim].cut_power()
        for victim in victims:
            victim.thaw()
        time.sleep(self.campaign.chance.uniform(0.0, AGONY_S))
        for victim in victims:
            victim.kill()

    def _restore(self, victim: NodeProcess) -> None:
        self._disks[victim].unmount()
        self._disks[victim].mount(next(self._modes))


def test_nothing_acked_is_lost_by_a_power_cut_of_one_and_of_all(tmp_path: Path) -> None:
    with CampaignOnDisks(tmp_path, SEED) as disks:
        disks.campaign.suffer("power cut of one", disks.of_one)
        disks.campaign.suffer("power cut of all", disks.of_all)
        print(disks.campaign.report(disks.campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acked_is_lost_by_power_cuts_of_one(tmp_path: Path) -> None:
    with CampaignOnDisks(tmp_path, SEED) as disks:
        disks.campaign.suffer("power cut of one", disks.of_one, ROUNDS)
        print(disks.campaign.report(disks.campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_acked_is_lost_by_power_cuts_of_all(tmp_path: Path) -> None:
    with CampaignOnDisks(tmp_path, SEED) as disks:
        disks.campaign.suffer("power cut of all", disks.of_all, ROUNDS)
        print(disks.campaign.report(disks.campaign.finish()))
