"""Who takes part in the metadata log, and who of them votes: the controller brings it about, one step at a time.

What should be follows from what is registered and who answers, with which disk. So a controller that dies between two
steps leaves nothing behind that the next one would have to know.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.metadata.commands.node_commands import check_removable, remove_node
from headrace.model.errors import ErrorCode, Refusal
from headrace.raft.membership import ReplicaKey
from headrace.raft.membership_change import AnsweringNode, next_membership

if TYPE_CHECKING:
    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock

log = logging.getLogger(__name__)


class Voters:
    def __init__(self, quorum: Quorum, clock: Clock) -> None:
        self._quorum = quorum
        self._clock = clock
        self._turn = asyncio.Lock()  # a node that is being removed must not be taken for a newcomer

    async def look(self) -> None:
        """One step, if one is due and safe. Raises Refusal NOT_CONTROLLER if another node has taken over."""
        async with self._turn:
            now = self._quorum.raft.membership
            wanted = next_membership(now, self._quorum.image.nodes, self._answering())
            if wanted is None:
                return
            try:
                await self._quorum.change_membership(wanted)
            except Refusal as refusal:
                if refusal.code is ErrorCode.NOT_CONTROLLER:
                    raise
                log.debug("the membership stays as it is for now: %s", refusal)
            else:
                log.info("voters are %s, learners %s", list(wanted.voter_ids), list(wanted.learners))

    async def remove(self, node_id: NodeId) -> None:
        """Forget a node. It leaves the voters first: if they could decide nothing without it, it stays."""
        async with self._turn:
            check_removable(self._quorum.image, node_id)
            membership = self._quorum.raft.membership
            if node_id in membership.everybody:
                await self._quorum.change_membership(membership.without(node_id))
            await self._quorum.submit(lambda image: remove_node(image, node_id))

    def heir(self) -> NodeId | None:
        """A voter that could lead at once; if there is one, one that is not about to leave as well."""
        membership, answering = self._quorum.raft.membership, self._answering()
        ready = [
            (not it.may_vote, node_id)
            for node_id, it in answering.items()
            if it.has_everything and membership.is_voter(ReplicaKey(node_id, it.directory))
        ]
        return min(ready)[1] if ready else None

    def _answering(self) -> dict[NodeId, AnsweringNode]:
        """Those who answer: several times within an election timeout."""
        raft, image = self._quorum.raft, self._quorum.image
        since_ms = int(self._clock.monotonic_s() * 1000) - raft.timing.election_min_ms
        return {
            node_id: AnsweringNode(
                follower.directory,
                has_everything=not follower.is_probing and follower.match_end >= raft.log.commit_end,
                may_vote=image.node_may_lead(node_id),
            )
            for node_id, follower in raft.followers().items()
            if follower.heard_ms >= since_ms
        }
