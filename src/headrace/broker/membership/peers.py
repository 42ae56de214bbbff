"""The other nodes: connections to them, and what is on its way there.

Each purpose has a connection of its own to a node (a lane), so that a vote never waits behind a megabyte of records.
A connection that broke is opened again when something is to be sent; until then, who sends hears of the trouble.

A node whose process ends closes its connections, and its machine refuses new ones. That is told at once, so that its
silence need not last as long as that of a machine that is gone or cut off. It proves nothing: a firewall refuses as
well, for a process that lives and leads.
From the first broken connection on a node is *doubted*, until it is reached again or the controller had time to decide.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.membership.dialing import CONNECT_S
from headrace.broker.membership.raft_messages import to_wire
from headrace.client.errors import AuthenticationFailed, ClientError, ConnectionLost, NobodyListens
from headrace.model.errors import ErrorCode, Refusal
from headrace.runtime.tasks import TaskScope
from headrace.wire.api import response_class
from headrace.wire.messages.greet import GreetRequest, GreetResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.broker.membership.dialing import Dialer
    from headrace.client.connections.connection import Connection
    from headrace.metadata.image.incarnations import Incarnation
    from headrace.model.names import NodeId
    from headrace.raft.messages import OutboundMessage
    from headrace.runtime.clock import Clock
    from headrace.runtime.network import Address
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
UNSENT_MAX: Final = 64  # waiting for one node: more only tell what the next heartbeat tells anyway
RETRY_FIRST_S: Final = 0.05  # a node that starts again is there within a second; then each try waits twice as long
RETRY_MAX_S: Final = 1.0
DOUBT_S: Final = 2.0  # a session: by then the controller has heard of it, or has fenced it
RAFT_LANE: Final = "raft"
STRANGE: Final = {ErrorCode.INVALID_VOTER_KEY, ErrorCode.INCONSISTENT_CLUSTER_ID}
"""How somebody else answers a message: another node, or one of another cluster."""


class Addresses(Protocol):
    def __call__(self, node_id: NodeId) -> Sequence[Address]:
        """Where a node may be, the likeliest place first."""


class Peers:
    def __init__(
        self,
        dialer: Dialer,
        life: Incarnation,
        clock: Clock,
        addresses: Addresses,
        cluster_id: Callable[[], str],
        on_failure: Callable[..., None],
    ) -> None:
        """`life` is this node's; what it says to others is signed with it."""
        self._dialer = dialer
        self.life = life
        self._clock = clock
        self._addresses = addresses
        self.cluster_id = cluster_id
        self.on_gone: Callable[[NodeId], None] = lambda _: None
        """Hears of nodes whose process has ended, as it seems: nobody listens there."""
        self.on_displaced: Callable[[NodeId], None] = lambda _: None
        """Hears that another node knows a later life of this node's disk than this one."""
        self._connections: dict[tuple[NodeId, str], Connection] = {}
        self._opening: dict[tuple[NodeId, str], asyncio.Lock] = {}
        self._senders: dict[NodeId, _MessageSender] = {}
        self._doubted_s: dict[NodeId, float] = {}
        self._looked_for: set[NodeId] = set()
        self._not_let_in: set[NodeId] = set()
        """Who does not know this node for one, or is not known for one: told once, until it is."""
        self.absent: set[NodeId] = set()
        """Where nobody listens, as the last attempt to reach them showed. Who has come back since may not have been
        tried again: `look_for_absent` does."""
        self._tasks = TaskScope(on_failure)
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        await self._tasks.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def doubted(self) -> tuple[NodeId, ...]:
        """Nodes that may be gone, though nobody has decided so yet. Nobody should be sent to them now."""
        since_s = self.now_s - DOUBT_S
        return tuple(node_id for node_id, broke_s in self._doubted_s.items() if broke_s > since_s)

    # ---- messages: no answer is waited for, and nobody minds if one is lost

    def send(self, message: OutboundMessage) -> None:
        sender = self._senders.get(message.target)
        if sender is None:
            sender = self._senders[message.target] = _MessageSender(self, message.target)
            self._tasks.start(sender.run(), f"messages to node {message.target}")
        sender.send(message)

    # ---- requests

    async def ask(
        self, node_id: NodeId, message: Message, answer: type[Answer], *, lane: str, timeout_s: float = ANSWER_S
    ) -> Answer:
        """Raises ClientError if the node cannot be reached or does not answer."""
        connection = await self.connection(node_id, lane)
        return await connection.request(message, answer, timeout_s=timeout_s)

    async def connection(self, node_id: NodeId, lane: str) -> Connection:
        found = self.open_connection(node_id, lane)
        if found is not None:
            return found
        key = (node_id, lane)
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self.open_connection(node_id, lane)
            if found is not None:
                return found
            self._connections[key] = opened = await self._find(node_id)
            return opened

    def open_connection(self, node_id: NodeId, lane: str) -> Connection | None:
        found = self._connections.get((node_id, lane))
        return None if found is None or found.is_lost else found

    async def _find(self, node_id: NodeId) -> Connection:
        """It has ended if nobody listens where it should be, and it is nowhere else either."""
        places = self._addresses(node_id)
        if not places:
            raise ConnectionLost(f"where node {node_id} listens is not known yet")
        troubles: list[ClientError | Refusal] = []
        for address in places:
            try:
                opened = await self._open(node_id, address)
                if len(places) > 1:  # it has moved, it seems: its old place may be somebody else's by now
                    await self._expect_it(node_id, opened)
            except (ClientError, Refusal) as trouble:
                troubles.append(trouble)
                self._tell_if_not_let_in(node_id, trouble)
            else:
                self._not_let_in.discard(node_id)
                self.absent.discard(node_id)
                self._doubted_s.pop(node_id, None)
                return opened
        if isinstance(troubles[0], NobodyListens):
            self.absent.add(node_id)
            self.on_gone(node_id)
        raise troubles[0]

    def _tell_if_not_let_in(self, node_id: NodeId, trouble: ClientError | Refusal) -> None:
        if isinstance(trouble, AuthenticationFailed) and node_id not in self._not_let_in:
            self._not_let_in.add(node_id)
            log.warning("node %d and this one do not know each other for nodes: %s", node_id, trouble)

    async def _open(self, node_id: NodeId, address: Address) -> Connection:
        return await self._dialer.open(address, request_timeout_s=ANSWER_S, on_broken=partial(self._broken, node_id))

    async def _expect_it(self, node_id: NodeId, connection: Connection) -> None:
        try:
            found = await connection.request(GreetRequest(), GreetResponse, timeout_s=CONNECT_S)
            ours = self.cluster_id()
            if found.node_id != node_id or (found.cluster_id and ours and found.cluster_id != ours):
                raise ConnectionLost(
                    f"node {node_id} of the cluster {ours or 'to be'} is not at {connection.address}: that is node "
                    f"{found.node_id} of the cluster {found.cluster_id or 'to be'}"
                )
        except BaseException:
            connection.close()
            raise

    def met_stranger(self, node_id: NodeId, address: Address) -> None:
        """Somebody else listens where the node was. As soon as it may be elsewhere, it is looked for anew."""
        if self._addresses(node_id) == [address]:
            return
        for (other_id, _), connection in self._connections.items():
            if other_id == node_id and connection.address == address:
                connection.close()

    def _broken(self, node_id: NodeId) -> None:
        if self._is_closed:
            return  # whoever leaves does not mind who else does
        self._doubted_s[node_id] = self.now_s
        if node_id not in self._looked_for:
            self._looked_for.add(node_id)
            self._tasks.start(self._look_whether_it_lives(node_id), f"look for node {node_id}")

    async def _look_whether_it_lives(self, node_id: NodeId) -> None:
        """Until that is known. An ending process may accept a connection, only to close it at once; something that is
        no node may do so for ever, and is asked ever more seldom."""
        retry_s = RETRY_FIRST_S
        while node_id in self.doubted():
            try:
                await self.connection(node_id, RAFT_LANE)
                self._doubted_s.pop(node_id, None)
            except NobodyListens:
                break
            except (ClientError, Refusal) as trouble:
                log.debug("node %d has closed a connection, and cannot be reached: %s", node_id, trouble)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, RETRY_MAX_S)
        self._looked_for.discard(node_id)

    async def look_for_absent(self) -> None:
        """Somebody who came back makes itself known to the controller, and not to everyone."""
        create_task = asyncio.get_running_loop().create_task
        # Each is a task before the next one is made: a process that ends here leaves none behind that nobody awaits.
        await asyncio.gather(*[create_task(self._try_to_reach(node_id)) for node_id in sorted(self.absent)])

    async def _try_to_reach(self, node_id: NodeId) -> None:
        try:
            await self.connection(node_id, RAFT_LANE)
        except (ClientError, Refusal) as trouble:
            log.debug("node %d is still away: %s", node_id, trouble)

    @property
    def now_s(self) -> float:
        return self._clock.monotonic_s()


class _MessageSender:
    """Carries the messages for one node, in order.

    While there is a connection a message leaves at once: nodes send ten a second and more to each other, and a task and
    a timer for each would cost more than the message. Messages wait only while the connection is opened.
    """

    def __init__(self, peers: Peers, target: NodeId) -> None:
        self._peers = peers
        self._target = target
        self._unsent: list[OutboundMessage] = []
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._unanswered_s: deque[float] = deque()
        """When those messages left, on this connection, that no answer has come to."""
        self._code = ErrorCode.NONE
        """How it answered last: trouble that stays is told once."""

    def send(self, message: OutboundMessage) -> None:
        connection = self._peers.open_connection(self._target, RAFT_LANE)
        if connection is not None and not self._unsent:
            self._deliver(connection, message)
            return
        if len(self._unsent) >= UNSENT_MAX:
            self._unsent.pop(0)
        self._unsent.append(message)
        self._wake.set()

    async def run(self) -> None:
        retry_s = RETRY_FIRST_S
        while True:
            await self._wake.wait()
            try:
                connection = await self._peers.connection(self._target, RAFT_LANE)
                retry_s = RETRY_FIRST_S
            except (ClientError, Refusal) as trouble:
                log.debug("node %d cannot be reached: %s", self._target, trouble)
                self._unsent.clear()  # they will be old news by then
                self._wake.clear()
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, RETRY_MAX_S)
                continue
            self._wake.clear()
            messages, self._unsent = self._unsent, []
            for message in messages:
                self._deliver(connection, message)

    def _deliver(self, connection: Connection, message: OutboundMessage) -> None:
        now_s = self._peers.now_s
        if connection is not self._connection:
            self._connection = connection
            self._unanswered_s.clear()
        if self._unanswered_s and now_s - self._unanswered_s[0] > ANSWER_S:
            log.debug("node %d has left messages unanswered for %g s", self._target, ANSWER_S)
            connection.close()  # it is dead, though nobody has said so; the next message opens another
            return
        request = to_wire(message, self._peers.cluster_id(), self._peers.life)
        try:
            connection.notify(request, response_class(request.API_KEY), self._answered)
        except (ClientError, Refusal) as trouble:
            log.debug("a message was lost: %s", trouble)
        else:
            self._unanswered_s.append(now_s)

    def _answered(self, answer: Message) -> None:
        """It only shows that the node lives, and takes our messages."""
        self._unanswered_s.popleft()
        assert self._connection is not None
        place = self._connection.address
        code = ErrorCode(answer.error_code)  # type: ignore[attr-defined]  # all of them have just this field
        if code is not self._code:
            self._code = code
            if code is not ErrorCode.NONE:
                log.warning("node %d at %s takes no messages of ours: %s", self._target, place, code.name)
        if code in STRANGE:
            self._peers.met_stranger(self._target, place)
        elif code is ErrorCode.STALE_BROKER_EPOCH:
            self._peers.on_displaced(self._target)
