"""Which nodes clients are told of, and which they had better not be sent to now: as far as this node can tell before
anybody has decided it, and for a while after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.image.records import NodeChanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.broker.health import Health
    from headrace.broker.membership.peers import Peers
    from headrace.metadata.image.cluster_image import ClusterImage, Node
    from headrace.metadata.image.records import MetadataRecord
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock

LISTED_S: Final = 10.0  # who looks for a leader asks once a second or sooner, and takes over what it is told in between


class Reachability:
    def __init__(self, node_id: NodeId, peers: Peers, health: Health, clock: Clock) -> None:
        self._node_id = node_id
        self._peers = peers
        self._health = health
        self._clock = clock
        self._lost_s: dict[NodeId, float] = {}
        """When nodes were fenced that others took over from; those that are here again are still in it."""

    @property
    def may_lead(self) -> bool:
        """Whether this node has a lease: without one, others may lead what it led."""
        return self._health.may_lead

    def doubted(self) -> tuple[NodeId, ...]:
        """Nodes that may be gone, though nobody has decided so yet; or somebody has, and this node is the one."""
        doubted = self._peers.doubted()
        return doubted if self.may_lead else (*doubted, self._node_id)

    def unreachable(self) -> tuple[NodeId, ...]:
        """Where nobody listens, or a connection broke just now."""
        return tuple(sorted({*self._peers.absent, *self._peers.doubted()}))

    def listed(self, image: ClusterImage) -> list[Node]:
        """The nodes that clients are told of: those that are here, and for a moment those that were lost.

        The answer that tells a client of the next leader must still name the one before: librdkafka takes a node that
        is no longer listed for decommissioned, and partitions that it is just moving from there to the next leader are
        with nobody then, until it asks again, up to a second later.
        """
        return [node for _, node in sorted(image.nodes.items()) if not node.is_fenced or self._was_lost_lately(node)]

    def _was_lost_lately(self, node: Node) -> bool:
        lost_s = self._lost_s.get(node.node_id)
        return lost_s is not None and self._clock.monotonic_s() < lost_s + LISTED_S

    # ---- told by the quorum

    def committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        fenced = (it.node_id for it in records if isinstance(it, NodeChanged) and it.is_fenced)
        self._note_lost(before, fenced)

    def jumped(self, before: ClusterImage, after: ClusterImage) -> None:
        self._note_lost(before, (node_id for node_id, node in after.nodes.items() if node.is_fenced))

    def _note_lost(self, before: ClusterImage, fenced: Iterator[NodeId]) -> None:
        """Who has left in order leads nothing by then: no client needs it any more."""
        for node_id in fenced:
            if before.node_may_lead(node_id):
                self._lost_s[node_id] = self._clock.monotonic_s()
