"""The Kafka listener: its connections, their limits, and what is logged about them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.runtime.tasks import TaskScope
from headrace.servers.kafka.connection import Connection
from headrace.wire.frames import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.metadata.image import Topic
    from headrace.model.names import TopicId
    from headrace.runtime.network import Address, Listener
    from headrace.wire.messages.metadata import MetadataResponseTopic

log = logging.getLogger(__name__)

SWEEP_S = 10.0  # how often idle connections and unused memory are looked for
REFUSALS_LOGGED = 20  # between two sweeps; a client that is refused again and again must not fill the operator's disk
REASON_MAX = 300  # characters of a reason in the log: it may quote what the client sent
LEAVE_S = 1.0  # at a stop, how long requests under way may take and clients may need to read their answers


class KafkaServer:
    """One listener. With `advertised` None, clients are told the address that they dialled.

    `connections_max` is what the system can bear; `max.connections` may be less.
    """

    def __init__(
        self,
        node: Node,
        advertised: Address | None = None,
        *,
        connections_max: int | None = None,
        is_for_nodes: bool = False,
    ) -> None:
        self.node = node
        self.is_for_nodes = is_for_nodes
        """Other nodes dial it: what they ask of each other is served here too."""
        self.tasks = TaskScope(self._task_failed)
        self._advertised = advertised
        self._connections: dict[Connection, None] = {}
        self._all_left = asyncio.Event()
        self._listener: Listener | None = None
        self._refusals = 0
        self.described_topics: dict[TopicId, tuple[Topic, object, MetadataResponseTopic]] = {}
        """Metadata's answers, each with the state of the topic that it was made from."""
        settings = node.settings
        self.frame_max_bytes = settings.socket_request_max_bytes
        if is_for_nodes:  # the setting is for clients: a decision that does not fit would be sent again for ever
            self.frame_max_bytes = max(self.frame_max_bytes, FRAME_BYTES_MAX)
        self._connections_max = settings.max_connections
        if connections_max is not None:
            self._connections_max = min(self._connections_max, connections_max)
        self._idle_max_s = settings.connections_max_idle_ms / 1000

    async def start(self, address: Address) -> Address:
        """Listen; returns the address with the real port."""
        self._listener = await self.node.world.network.listen(address, lambda: Connection(self))
        self.tasks.start(self._sweep(), "sweep idle connections")
        return self._listener.address

    async def stop(self) -> None:
        """Answer what is under way, if that is soon, and close every connection."""
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._connections):
            connection.leave()
        await self._until_all_left()
        await self.tasks.close()
        for connection in list(self._connections):
            connection.link.abort()
        await self._until_all_left()

    async def _until_all_left(self) -> None:
        self._all_left.clear()
        if self._connections:
            try:
                async with asyncio.timeout(LEAVE_S):
                    await self._all_left.wait()
            except TimeoutError:
                log.info("%d clients have not left in time; their connections are cut", len(self._connections))

    def advertised_to(self, connection: Connection) -> Address:
        """Where this client should look for this node."""
        return self._advertised or connection.link.local

    # ---- called by connections

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None
        self.node.counters.connections = len(self._connections)
        if len(self._connections) > self._connections_max:
            connection.refuse(f"there are {self._connections_max} connections, and no more are allowed")

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.node.counters.connections = len(self._connections)
        if not self._connections:
            self._all_left.set()

    def log_refusal(self, connection: Connection, reason: str) -> None:
        self.node.counters.refused_connections += 1
        self._refusals += 1
        if self._refusals <= REFUSALS_LOGGED:
            log.warning("closed the connection of %s: %s", connection.link.peer, reason[:REASON_MAX])

    def log_bug(self, connection: Connection, what: str) -> None:
        log.exception("closed the connection of %s: %s failed in a way that is our fault", connection.link.peer, what)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self.node.fail(RuntimeError(f"the task {name!r} ended: {error!r}"))

    # ---- chores

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._log_other_refusals()
            now_s = self.node.world.clock.monotonic_s()
            for connection in list(self._connections):
                connection.shrink()
                if self._idle_max_s >= 0 and connection.last_active_s < now_s - self._idle_max_s:
                    connection.close_if_idle()

    def _log_other_refusals(self) -> None:
        refusals, self._refusals = self._refusals, 0
        if refusals > REFUSALS_LOGGED:
            log.warning("closed %d more connections in %d s for such reasons", refusals - REFUSALS_LOGGED, SWEEP_S)
