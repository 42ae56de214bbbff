"""When this node, as a leader, has heard of each follower."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock


class HeardFollowers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at_ms: dict[NodeId, int] = {}
        """When each node last fetched anything as a follower, on the steady clock."""

    def note(self, node_id: NodeId) -> None:
        self.at_ms[node_id] = int(self._clock.monotonic_s() * 1000)
