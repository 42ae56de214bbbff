"""Asks the node that looks after a group or a transactional id. Which one that is may change at any time."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.client.connections.cluster import RetryBackoff
from headrace.client.connections.pool import MAIN_LANE
from headrace.client.errors import ClientError, refuse_unless_ok
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NodeId
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.connection import Answer, Connection
    from headrace.wire.api import Message

FIND_VERSIONS = (4, 6)  # from 4 on the keys are a list; share groups came with 6
LOOK_FOR_ANOTHER = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class CoordinatorKind(IntEnum):
    """What is looked after: a group, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator:
    """The coordinator of one group or transactional id, remembered until it says that it is not, or goes away."""

    def __init__(self, cluster: Cluster, kind: CoordinatorKind, key: str, lane: str = MAIN_LANE) -> None:
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._lane = lane
        self._node_id = NO_NODE

    async def ask(
        self,
        message: Message,
        answer: type[Answer],
        check: Callable[[Answer], None],
        *,
        versions: tuple[int, int] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask until the answer passes `check`, which raises a Refusal for what the coordinator refused.

        What may pass by itself is waited out for as long as `Cluster.retry` would, counted from when it
        began: an answer may be long in coming, and that alone is no trouble. A Refusal that ends it has the trouble
        before it as its cause: an attempt whose answer was lost may have been served.
        """
        earlier: Exception | None = None
        with RetryBackoff(self._cluster) as backoff:
            while True:
                try:
                    connection = await self.connection()
                    version = connection.version_for(type(message), versions)
                    answered = await connection.request(message, answer, version=version, timeout_s=timeout_s)
                    check(answered)
                except (ClientError, Refusal) as trouble:
                    if isinstance(trouble, ClientError) or trouble.code in LOOK_FOR_ANOTHER:
                        self._node_id = NO_NODE
                    if not self._cluster.is_retriable(trouble):
                        raise trouble from earlier
                    if earlier is None:
                        backoff.begin()
                    earlier = trouble
                    await backoff.wait_or_raise(trouble)
                else:
                    return answered

    async def connection(self) -> Connection:
        """To the coordinator, wherever it is."""
        return await self._cluster.node_connection(await self.node_id(), self._lane)

    async def node_id(self) -> NodeId:
        """The node that coordinates it now."""
        if self._node_id == NO_NODE:
            self._node_id = await self._find()
        return self._node_id

    async def _find(self) -> NodeId:
        view = await self._cluster.refresh()  # a node that was restarted may have another address
        connection = await self._cluster.any_connection()
        answer = await connection.request(
            FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._key]),
            FindCoordinatorResponse,
            version=connection.version_for(FindCoordinatorRequest, FIND_VERSIONS),
        )
        what = f"the coordinator of {self._kind.name.lower()} {self._key!r}"
        for found in answer.coordinators:
            refuse_unless_ok(found.error_code, what, found.error_message)
            if found.node_id in view.nodes:
                return NodeId(found.node_id)
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{what} is not among the nodes that are alive")
