"""Which nodes clients had better not be sent to now, as far as this node can tell before anybody has decided it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.health import Health
    from headrace.broker.membership.peers import Peers
    from headrace.model.names import NodeId


class Reachability:
    def __init__(self, node_id: NodeId, peers: Peers, health: Health) -> None:
        self._node_id = node_id
        self._peers = peers
        self._health = health

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
