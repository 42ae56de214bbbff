"""The door for other nodes' Raft messages: what cannot be meant for this node, or be honest, is turned away."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.broker.membership.raft_messages import from_wire, life_of
from headrace.broker.metadata.snapshots import checking
from headrace.metadata.image.incarnations import is_superseded
from headrace.model.errors import ErrorCode
from headrace.model.names import NodeId
from headrace.runtime.tasks import Pace
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.messages.raft_install_snapshot import RaftInstallSnapshotRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.membership.raft_messages import RaftRequest
    from headrace.broker.metadata.quorum import Quorum

log = logging.getLogger(__name__)

CHECKED_AT_ONCE: Final = 1000  # records of a snapshot, in a turn: 2 ms
TERM_LEAP_MAX: Final = 1 << 20  # an election takes a second: no honest node is twelve days of elections ahead of us


class RaftReceiver:
    def __init__(self, local: LocalNode, quorum: Quorum) -> None:
        self._local = local
        self._quorum = quorum

    def receive(self, message: RaftRequest) -> ErrorCode | Awaitable[ErrorCode]:
        """From another node, or so it says. A snapshot is looked at in slices."""
        if message.target != self._local.node_id:
            return ErrorCode.INVALID_VOTER_KEY  # somebody else lives here now, at an address that once was another's
        if not self._is_of_this_cluster(message):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._knows_later_life(message):
            return ErrorCode.STALE_BROKER_EPOCH
        if message.term > self._quorum.raft.term + TERM_LEAP_MAX:
            log.warning("a message that says it is of node %d is of term %d: ignored", message.source, message.term)
            return ErrorCode.INVALID_REQUEST
        if isinstance(message, RaftInstallSnapshotRequest):
            return self._receive_snapshot(message)
        return self._receive(message)

    def _receive(self, message: RaftRequest) -> ErrorCode:
        try:
            self._quorum.receive(from_wire(message))
        except CorruptBatch as damage:
            return _damaged(message, damage)
        return ErrorCode.NONE

    async def _receive_snapshot(self, message: RaftInstallSnapshotRequest) -> ErrorCode:
        pace = Pace(CHECKED_AT_ONCE)
        try:
            for _ in checking(message.snapshot):
                await pace.step()
        except CorruptBatch as damage:
            return _damaged(message, damage)
        return self._receive(message)

    def _is_of_this_cluster(self, message: RaftRequest) -> bool:
        """Node ids are the same in many clusters. One wrong address must not let two of them elect each other's
        leaders. Who is just being let in may not have heard the cluster's name yet, but is known to its members."""
        ours = self._local.cluster_id(self._quorum.image)
        if not ours:
            return True
        if not message.cluster_id:
            return message.source in self._quorum.raft.membership.everybody
        return message.cluster_id == ours

    def _knows_later_life(self, message: RaftRequest) -> bool:
        """Who starts on an older copy of its disk has forgotten what it promised: its votes must not count, nor what it
        says to have on disk. What this node's log says is enough to know it, whether agreed on or not."""
        source, life = NodeId(message.source), life_of(message)
        images = (self._quorum.image, self._quorum.found_image)
        return any(is_superseded(image.nodes.get(source), message.directory, life) for image in images)


def _damaged(message: RaftRequest, damage: CorruptBatch) -> ErrorCode:
    log.warning("a message of node %d was damaged on its way: %s", message.source, damage)
    return ErrorCode.CORRUPT_MESSAGE
