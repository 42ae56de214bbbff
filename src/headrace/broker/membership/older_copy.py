"""What a node does when another one knows a later life of its disk than the present one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.failure import DisplacedNode

if TYPE_CHECKING:
    from headrace.broker.failure import Failure
    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.membership.membership import ClusterMembership
    from headrace.broker.membership.registration import Registration
    from headrace.broker.metadata.quorum import Quorum
    from headrace.model.names import NodeId
    from headrace.runtime.tasks import TaskScope

log = logging.getLogger(__name__)


class OlderCopy:
    def __init__(
        self,
        local: LocalNode,
        membership: ClusterMembership,
        quorum: Quorum,
        registration: Registration,
        failure: Failure,
        tasks: TaskScope,
    ) -> None:
        self._local = local
        self._membership = membership
        self._quorum = quorum
        self._registration = registration
        self._failure = failure
        self._tasks = tasks
        self._is_known = False

    def displaced(self, by: NodeId) -> None:
        """Another node believes nothing that this one says: a process was started after this one on the same disk, or
        before on a disk of which this one is an older copy."""
        if self._registration.broker_epoch >= 0:
            self._failure.fail(
                DisplacedNode(f"node {by} knows a later process than this one as node {self._local.node_id}")
            )
        elif not self._is_known:
            self._is_known = True
            log.error(
                "the data directory is an older copy: node %d knows a later life of it. What this node has promised "
                "since then is not in it. So its votes do not count, and it is in sync with nothing until it has "
                "fetched what it lacks from the others",
                by,
            )
            self._tasks.start(self._become_another_disk(), "older copy")

    async def _become_another_disk(self) -> None:
        """This node's disk counts as another from now on."""
        self._local.directory = await self._membership.take_new_directory()
        self._quorum.forget_votes(self._local.directory)
