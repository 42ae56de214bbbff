"""The Kafka listener: its connections, their limits, and what is logged about them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.broker.access.listener_access import OPEN
from headrace.metadata.configs.config_keys import INT_MAX
from headrace.runtime.fair_queue import FairQueue
from headrace.runtime.tasks import TaskScope
from headrace.servers.kafka.connections.connection import Connection
from headrace.servers.kafka.connections.connection_table import ConnectionTable, parse_overrides
from headrace.servers.kafka.connections.listener_logins import ListenerLogins
from headrace.servers.kafka.limits import answer_memory, request_memory
from headrace.servers.kafka.limits.answer_memory import AnswerMemory
from headrace.servers.kafka.limits.parked_fetches import ParkedFetches
from headrace.servers.kafka.limits.request_memory import RequestMemory
from headrace.servers.kafka.limits.woken_fetches import WokenFetches
from headrace.servers.kafka.record_rights import RecordRights
from headrace.wire.frames import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from headrace.access.identity import Identity
    from headrace.access.listeners import ListenerSecurity
    from headrace.broker.access.listener_access import ListenerAccess
    from headrace.metadata.image.cluster_image import Topic
    from headrace.model.names import TopicId
    from headrace.runtime.network import Address, Listener
    from headrace.servers.kafka.apis import Apis
    from headrace.servers.kafka.connections.listener import ListenerParts
    from headrace.servers.kafka.interfaces import ClientConnection
    from headrace.wire.messages.metadata import MetadataResponseTopic

log = logging.getLogger(__name__)

SWEEP_S = 10.0  # how often idle connections and unused memory are looked for
REFUSALS_LOGGED = 20  # between two sweeps; a client that is refused again and again must not fill the operator's disk
REASON_MAX = 300  # characters of a reason in the log: it may quote what the client sent
LEFT_BEHIND_MAX = 64  # requests whose connections were cut while they waited, to make room for others for instance
CROWDS_AT_ONCE = 8  # requests of thousands of batches; some 5 MB each while they wait to be committed
CROWDS_BEGINNING = 2
LARGE_AT_ONCE = 2  # answers of up to 32 MiB that are being made
LEAVE_S = 1.0  # at a stop, how long requests under way may take and clients may need to read their answers


class KafkaServer:
    """One listener. With `advertised` None, clients are told the address that they dialled.

    `connections_max` is what the system can bear; `max.connections` may be less.
    """

    def __init__(
        self,
        parts: ListenerParts,
        apis: Apis,
        advertised: Address | None = None,
        *,
        access: ListenerAccess = OPEN,
        connections_max: int | None = None,
        is_for_nodes: bool = False,
    ) -> None:
        self.parts = parts
        self.apis = apis
        self.access = access
        """What it asks of its clients."""
        self._logins = ListenerLogins(access, parts.world, parts.audit, parts.counters.logins)
        self.is_for_nodes = is_for_nodes
        """Other nodes dial it: what they ask of each other is served here too."""
        self.tasks = TaskScope(self._task_failed)
        self._advertised = advertised
        self._all_left = asyncio.Event()
        self._listener: Listener | None = None
        self._is_stopping = False
        self._refusals = 0
        self._is_looking_for_slow = False
        self.described_topics: dict[TopicId, tuple[Topic, object, MetadataResponseTopic]] = {}
        """Metadata's answers, each with the state of the topic that it was made from."""
        settings = parts.view.settings
        self.frame_max_bytes = settings.socket_request_max_bytes
        if is_for_nodes:  # the setting is for clients: a decision that does not fit would be sent again for ever
            self.frame_max_bytes = max(self.frame_max_bytes, FRAME_BYTES_MAX)
        limits = access.limits
        self._rate = None if limits.per_second is None else parts.connection_rates.bucket(limits.per_second)
        self.connections: ConnectionTable[Connection] = ConnectionTable(
            min(most for most in (settings.max_connections, limits.most, connections_max) if most is not None),
            INT_MAX if is_for_nodes else settings.max_connections_per_ip,  # which is for clients, too
            {} if is_for_nodes else parse_overrides(settings.max_connections_per_ip_overrides),
        )
        self.requests: RequestMemory = RequestMemory(
            settings.queued_max_request_bytes, self.frame_max_bytes, self._look_for_slow_later
        )
        """Nodes have their own: what they tell each other never waits for a client."""
        self.answers: AnswerMemory = AnswerMemory(self._look_for_deaf_later)
        self.crowds, self.crowds_beginning = FairQueue(CROWDS_AT_ONCE), FairQueue(CROWDS_BEGINNING)
        self.large_answers = FairQueue(LARGE_AT_ONCE)
        self._left_behind: dict[Connection, None] = {}
        self.parked = ParkedFetches()
        self.woken = WokenFetches()
        self._idle_max_s = settings.connections_max_idle_ms / 1000

    @property
    def security(self) -> ListenerSecurity:
        return self.access.security

    async def start(self, address: Address) -> Address:
        """Listen; returns the address with the real port."""
        network = self.access.network_over(self.parts.world.network)
        self._listener = await network.listen(address, lambda: Connection(self))
        self.tasks.start(self._sweep(), "sweep idle connections")
        if self.access.tls is not None:
            self.tasks.start(self.access.tls.keep_fresh(self.parts.world.threads), "certificates")
        return self._listener.address

    async def stop(self) -> None:
        """Answer what is under way, if that is soon, and close every connection."""
        self._is_stopping = True
        if self._listener is not None:
            await self._listener.close()
        for connection in self.connections.seats():
            connection.leave()
        await self._until_all_left()
        await self.tasks.close()
        for connection in self.connections.seats():
            connection.link.abort()
        await self._until_all_left()

    async def _until_all_left(self) -> None:
        self._all_left.clear()
        if self.connections:
            try:
                async with asyncio.timeout(LEAVE_S):
                    await self._all_left.wait()
            except TimeoutError:
                log.info("%d clients have not left in time; their connections are cut", len(self.connections))

    def rights_of(self, identity: Identity) -> RecordRights | None:
        """What somebody may do with records; None where nobody is asked, as nodes are not."""
        authorizer, audit = self.parts.authorizer, self.parts.audit
        return RecordRights(authorizer, audit, identity) if authorizer.is_on and not self.is_for_nodes else None

    def advertised_to(self, connection: ClientConnection) -> Address:
        """Where this client should look for this node."""
        return self._advertised or connection.link.local

    # ---- called by connections

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.parts.counters.connections = len(self.connections)
        if self._is_stopping:  # it has shaken hands while the others left: TLS takes its time
            connection.leave()
            return
        problem = (
            self.connections.problem_of(connection)
            or self._problem_of_pace(connection)
            or self._logins.meet(connection)
        )
        if problem is not None:
            connection.refuse(problem)
        elif len(self.connections) > self.connections.size_max:
            self._make_room_for(connection)

    def _problem_of_pace(self, newcomer: Connection) -> str | None:
        """Why it cannot stay; or it is not read from until it is its turn."""
        if self.is_for_nodes:
            return None
        wait_s = self.parts.connection_rates.came(newcomer.link.peer.host, self._rate)
        if wait_s is None:
            return (
                "connections come too fast: max.connection.creation.rate says how many may in a second, and the quota "
                "connection_creation_rate how many of one address"
            )
        newcomer.meter.mute(wait_s)
        return None

    def _make_room_for(self, newcomer: Connection) -> None:
        limit = self.connections.size_max
        goes = self.connections.who_goes(newcomer, newcomer.last_active_s)
        if goes is newcomer:
            newcomer.refuse(f"there are {limit} connections, and no more are allowed")
        else:
            self.connections.remove(goes)
            self.parts.counters.connections = len(self.connections)
            goes.refuse(f"there are {limit} connections, and it makes way for one of {newcomer.address}")

    def closed(self, connection: Connection) -> None:
        self.connections.remove(connection)
        self.parts.counters.connections = len(self.connections)
        if connection.login is not None:
            connection.login.over()
        if not self.connections:
            self._all_left.set()

    def may_be_left_behind(self, connection: Connection) -> bool:
        """Its client has gone, and what it asked for waits to be begun. As in Kafka that is done all the same: who
        wants no answer may leave at once. True unless there are too many of them."""
        if len(self._left_behind) >= LEFT_BEHIND_MAX:
            return False
        self._left_behind[connection] = None
        return True

    def has_served(self, connection: Connection) -> None:
        """What was left behind is done."""
        self._left_behind.pop(connection, None)

    def log_refusal(self, connection: Connection, reason: str) -> None:
        self.parts.counters.refused_connections += 1
        self._refusals += 1
        if self._refusals <= REFUSALS_LOGGED:
            log.warning("closed the connection of %s: %s", connection.link.peer, reason[:REASON_MAX])

    def log_bug(self, connection: Connection, what: str) -> None:
        log.exception("closed the connection of %s: %s failed in a way that is our fault", connection.link.peer, what)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self.parts.health.failure.fail(RuntimeError(f"the task {name!r} ended: {error!r}"))

    # ---- chores

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._log_other_refusals()
            now_s = self.parts.world.clock.monotonic_s()
            for connection in self.connections.seats():
                connection.shrink()
                if self._idle_max_s >= 0 and connection.last_active_s < now_s - self._idle_max_s:
                    connection.close_if_idle()

    def _look_for_slow_later(self) -> None:
        if not self._is_looking_for_slow:
            self._is_looking_for_slow = True
            asyncio.get_running_loop().call_later(request_memory.LOOK_S, self._look_for_slow)

    def _look_for_slow(self) -> None:
        self._is_looking_for_slow = False
        self.requests.look_for_slow()
        if self.requests.has_waiters:
            self._look_for_slow_later()

    def _look_for_deaf_later(self) -> None:
        asyncio.get_running_loop().call_later(answer_memory.LOOK_S, self._look_for_deaf)

    def _look_for_deaf(self) -> None:
        for connection in self.connections.seats():
            connection.close_if_deaf()
        if self.answers.is_short:
            self._look_for_deaf_later()

    def _log_other_refusals(self) -> None:
        refusals, self._refusals = self._refusals, 0
        if refusals > REFUSALS_LOGGED:
            log.warning("closed %d more connections in %d s for such reasons", refusals - REFUSALS_LOGGED, SWEEP_S)
