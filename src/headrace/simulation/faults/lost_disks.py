"""Disks that are lost, have not kept everything, or come back from an earlier day.

What has no other copy must stay, so none of these happens unless every replica is in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.metadata.store import METADATA_LOG
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.storage.files import layout

if TYPE_CHECKING:
    from collections import Counter
    from random import Random

    from headrace.simulation.cluster import NodeProcess, SimulatedCluster
    from headrace.simulation.environment.device import StoredDirectory
    from headrace.simulation.faults.node_faults import NodeFaults

DISK_REPLACED = "disk replaced"  # counts those that were lost in fact
LOST_DISK = "lost disk"
TORN_DISK = "outage with a torn disk"
OLDER_DISK = "outage with an older disk"
TORN_BYTES_MAX = 5_000  # of each log: a few batches, or all of it
METADATA_DIRECTORY = layout.directory_of(METADATA_LOG)


class LostDisks:
    def __init__(self, cluster: SimulatedCluster, chance: Random, happened: Counter[str], nodes: NodeFaults) -> None:
        self._cluster = cluster
        self._chance = chance
        self._happened = happened
        self._nodes = nodes
        self._copies: dict[NodeProcess, StoredDirectory] = {}
        """Of disks, as they were some time ago."""

    async def lose_disk(self, process: NodeProcess) -> None:
        """One at a time, and only while all others hold everything: what has no other copy may be lost."""
        if process.host.is_up and self._is_whole():
            self._happened[DISK_REPLACED] += 1
            process.host.power_cut()
            process.host.replace_disk()

    async def tear_disk(self, process: NodeProcess) -> None:
        """Everybody crashes while all hold everything, and one disk has not kept the ends of its logs."""
        if not self._is_whole():
            self._happened[TORN_DISK] -= 1
            return
        self._nodes.crash_everybody()
        device = process.host.device
        logs = [path for path, _ in device.files() if path.endswith(layout.LOG) and METADATA_DIRECTORY not in path]
        for path in self._chance.sample(logs, self._chance.randint(0, len(logs))):
            device.tear(path, self._chance.randint(1, TORN_BYTES_MAX))
        device.has_lied = True

    async def put_older_disk_back(self, process: NodeProcess) -> None:
        """Everybody crashes while all hold everything, and one comes back with a copy of its disk from an earlier
        crash. The first time that copy is made."""
        copy = self._copies.pop(process, None)
        if copy is None:
            self._happened[OLDER_DISK] -= 1
            await self._nodes.crash(process)
            self._copies[process] = process.host.device.copy()
        elif not self._is_whole():
            self._happened[OLDER_DISK] -= 1
            self._copies[process] = copy
        else:
            self._nodes.crash_everybody()
            process.host.device.put_back(copy)
            process.host.device.has_lied = True

    def _is_whole(self) -> bool:
        """Whether every replica is in sync and every voter is the one that the others know."""
        present = [process.node for process in self._cluster.nodes if process.is_serving and process.node is not None]
        leaders = [node for node in present if node.is_controller]
        if len(present) < len(self._cluster.nodes) or not leaders:
            return False
        latest = max(leaders, key=lambda node: node.quorum.raft.term)
        image, voters = latest.image, latest.quorum.raft.membership.voters
        disks = {(node.node_id, node.directory) for node in image.nodes.values() if not node.is_fenced}
        return {tuple(voter) for voter in voters} == disks and all(
            set(partition.isr) == set(partition.replicas) and len(partition.isr) > 1
            for _, partition in partitions_of(image)
        )
