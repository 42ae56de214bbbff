"""Looks into all nodes of a cluster after every step: what must hold of metadata and of replicas, at any instant.

A step changes nothing but the nodes that have run in it, so only those are looked at; and of them only what differs
from the last look. Whatever concerns several nodes (a new image, a higher watermark) is held against all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.simulation.checks.raft_watch import RaftWatch
from headrace.simulation.checks.replica_watch import ReplicaWatch

if TYPE_CHECKING:
    from headrace.simulation.cluster import SimulatedCluster
    from headrace.simulation.environment.life import Life
    from headrace.simulation.history.history import History


class ClusterWatch:
    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        self._nodes = cluster.nodes
        self.metadata = RaftWatch(history)
        self.replicas = ReplicaWatch(cluster.nodes, history)
        self.metadata.on_image = self.replicas.check_image
        self.metadata.on_newest = self.replicas.set_image

    def look(self, lives: set[Life]) -> None:
        """`lives` are those who have just run."""
        for process in self._nodes:
            life = process.host.life
            if life in lives and process.present is not None and not life.is_over:
                self.metadata.look(process.node_id, process.present.quorum)
                self.replicas.look(process)
