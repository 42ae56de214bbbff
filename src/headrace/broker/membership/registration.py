"""A node's own place in the cluster: it makes itself known, says that it is there, and knows when it is not.

Without an answer for a lease's length this node must believe that others have taken over. It stops serving writes by
itself before they do.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.broker.failure import DisplacedNode
from headrace.client.errors import ClientError
from headrace.metadata.commands.node_commands import name_cluster, register_node
from headrace.metadata.liveness import Lease
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import Offset, TopicId
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.broker.membership.local_node import LocalNode
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.controller import Controller
    from headrace.broker.metadata.quorum import Quorum
    from headrace.metadata.image.records import MetadataRecord
    from headrace.runtime.clock import Clock
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
NAME_RETRY_S: Final = 0.05
HAND_OVER_S: Final = 1.0  # an election that is asked for takes two messages and two flushes
BEATS: Final = 3  # in a lease, at least
ANSWER_PART: Final = 0.8  # of a lease: a controller that is gone must not keep us from asking the next
LANE: Final = "registration"
UNWANTED_S: Final = 30.0  # beyond a session: an election may come in between

_UNWANTED: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: (
        "node {node_id} is running already, with another data directory or a copy of this one; give this node another "
        "--node-id and an empty --data-dir. If it has just crashed, or its disk was replaced: in a few seconds that is "
        "known"
    ),
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "the controller belongs to another cluster than the data directory of node {node_id}; look at --voters and "
        "--join, or choose an empty --data-dir"
    ),
}
"""What does not pass by itself, or only soon, and what to do about it. The answer on the wire has no room for words."""


class Registration:
    """This node in the eyes of the controller: registered, heard of, and leased for as long as that is recent."""

    def __init__(
        self, local: LocalNode, quorum: Quorum, controller: Controller, peers: Peers | None, clock: Clock
    ) -> None:
        self.broker_epoch = -1
        self._local = local
        self._quorum = quorum
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self.on_lease: Callable[[bool], None] = lambda _: None
        """Called whenever this node may serve writes from now on, or may no longer."""
        self._lease = Lease(local.timing.session_ms)
        self.is_leased = False
        """Whether this node may serve writes. Others may lead what it led if not."""
        self._lease_end_s = math.inf
        self._wants_stop = False

    async def join(self, new_cluster_id: str, first_records: Sequence[MetadataRecord] = ()) -> None:
        """Until the cluster has a name and knows this life of the node. A cluster that this node names begins with
        `first_records`."""
        while self._quorum.image.cluster_id is None:
            try:
                await self._quorum.submit(lambda image: name_cluster(image, new_cluster_id, first_records))
            except Refusal:  # another node is the controller, or nobody is yet
                await asyncio.sleep(NAME_RETRY_S)
        await self.register()
        await self._applied()

    async def _applied(self) -> None:
        """Until this node's image has come to its new life. An earlier one may say that the last life leads, and in
        which epoch: in that epoch nothing may be written any more. The image may be further already, where another
        life has followed or the node was removed: then the first heartbeat says so."""
        while self._quorum.image.registrations < self.broker_epoch:
            await self._quorum.applied_up_to(Offset(self._quorum.applied_end + 1))

    async def register(self) -> None:
        """Begin this life. Tries until there is a controller; Refusal if that does not want this node."""
        unwanted_since_s: float | None = None
        while True:
            try:
                self.broker_epoch = await self._register()
            except (ClientError, Refusal) as trouble:
                if not isinstance(trouble, Refusal) or trouble.code not in _UNWANTED:
                    log.debug("not registered yet: %s", trouble)
                    unwanted_since_s = None
                elif unwanted_since_s is None:
                    log.warning("not registered yet, this node asks again: %s", trouble.message)
                    unwanted_since_s = self._clock.monotonic_s()
                elif self._clock.monotonic_s() - unwanted_since_s >= self._unwanted_s_max:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return

    @property
    def _unwanted_s_max(self) -> float:
        """The session of this node's last life ends first, if its disk was replaced."""
        return UNWANTED_S + self._local.timing.session_ms / 1000

    async def _register(self) -> int:
        local = self._local
        if self._quorum.is_leader:
            return await self._controller.register(
                local.node_id,
                lambda image: register_node(
                    image,
                    local.node_id,
                    local.incarnation,
                    local.endpoints,
                    local.rack,
                    directory=local.directory,
                    session_ms=local.timing.session_ms,
                    start_count=local.life,
                    is_heard=self._controller.is_heard(local.node_id),
                ),
            )
        request = BrokerRegistrationRequest(
            local.node_id,
            self._quorum.image.cluster_id or "",
            TopicId(local.incarnation),
            [RegisteredListener(it.listener, it.host, it.port, 0) for it in local.endpoints],
            rack=local.rack,
            log_dirs=[TopicId(local.directory)],
            session_ms=local.timing.session_ms,
            life=local.life,
        )
        answer = await self._ask_controller(request, BrokerRegistrationResponse)
        if answer.error_code in _UNWANTED:
            code = ErrorCode(answer.error_code)
            raise Refusal(code, _UNWANTED[code].format(node_id=local.node_id))
        _check(answer.error_code, "register")
        return answer.broker_epoch

    async def beat_until_served(self) -> None:
        """Until the controller lets this node in."""
        is_served = False
        while not is_served:
            is_served = await self._beat()
            if not is_served:
                await asyncio.sleep(RETRY_S)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(self._local.timing.interval_ms, self._lease.lease_ms / BEATS) / 1000)
            await self._beat()

    def look_at_lease(self, now_s: float) -> None:
        """Stop serving if the lease has ended. To be called before anything is taken or promised: a process that stood
        still is told of what waits at its sockets before it is told of the time."""
        if now_s >= self._lease_end_s and self.is_leased and not self._is_alone:
            self._say_leased(False)

    async def watch_lease(self) -> None:
        """Stop serving in the moment that the lease ends, also if nobody asks for anything."""
        while True:
            now_s = self._clock.monotonic_s()
            self.look_at_lease(now_s)
            left_s = min(self._lease_end_s - now_s, self._lease.lease_ms / 1000)
            await asyncio.sleep(max(left_s, 0.01))

    @property
    def _is_alone(self) -> bool:
        """Nobody else could lead: a node that was held up need not stop for fear of it."""
        return self._quorum.raft.membership.everybody == (self._local.node_id,)

    async def leave(self) -> None:
        """A clean stop: others decide and lead first, then this node is fenced. Tries until somebody has heard it."""
        self._wants_stop = True
        await self._hand_over()
        for wants_fence in (False, True):
            await self._until(partial(self._is_let_go, wants_fence=wants_fence))
        self._say_leased(False)

    async def _hand_over(self) -> None:
        """Let another voter be the controller. If none can, this one is until its last moment."""
        heir = self._controller.voters.heir()
        if not self._quorum.is_leader or heir is None:
            return
        log.info("node %d is to be the controller", heir)
        self._quorum.hand_over(heir)
        until_s = self._clock.monotonic_s() + HAND_OVER_S

        async def is_over() -> bool:
            return not self._quorum.is_leader or self._clock.monotonic_s() >= until_s

        await self._until(is_over)

    async def _until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        while not await is_so():  # noqa: ASYNC110 - another node makes it so
            await asyncio.sleep(RETRY_S)

    async def _is_let_go(self, *, wants_fence: bool) -> bool:
        """Whether the controller has heard that this node leaves."""
        try:
            await self._say_here(wants_fence=wants_fence)
        except Refusal as refusal:
            return refusal.code is ErrorCode.STALE_BROKER_EPOCH  # another life of this node has begun
        except ClientError:
            return False
        return True

    async def _beat(self, *, wants_fence: bool = False) -> bool:
        sent_ms = self._now_ms()
        try:
            is_served = await self._say_here(wants_fence=wants_fence)
        except Refusal as refusal:
            if refusal.code is ErrorCode.STALE_BROKER_EPOCH and not wants_fence:
                raise DisplacedNode(
                    f"another process has registered as node {self._local.node_id} since this one did, or the node was "
                    "removed from the cluster; give each node an id of its own"
                ) from refusal
            log.debug("the heartbeat was refused: %s", refusal)
            return False
        except ClientError as trouble:
            log.debug("the heartbeat was not answered: %s", trouble)
            return False
        if is_served:
            self._lease.renewed(sent_ms)
            self._lease_end_s = (self._lease.end_ms or 0) / 1000
        self._say_leased(is_served and (self._is_alone or self._lease.is_valid(self._now_ms())))
        return is_served

    async def _say_here(self, *, wants_fence: bool) -> bool:
        applied_end = self._quorum.applied_end
        if self._quorum.is_leader:
            return await self._controller.heartbeat(
                self._local.node_id,
                self.broker_epoch,
                applied_end,
                wants_fence=wants_fence,
                wants_stop=self._wants_stop,
            )
        request = BrokerHeartbeatRequest(
            self._local.node_id, self.broker_epoch, applied_end, wants_fence, self._wants_stop
        )
        answer = await self._ask_controller(request, BrokerHeartbeatResponse)
        _check(answer.error_code, "be heard")
        return not answer.is_fenced

    async def _ask_controller(self, request: Message, answer: type[Answer]) -> Answer:
        controller = self._quorum.get_leader()
        if controller is None or self._peers is None:
            raise self._quorum.no_controller()
        timeout_s = self._lease.lease_ms * ANSWER_PART / 1000
        return await self._peers.ask(controller, request, answer, lane=LANE, timeout_s=timeout_s)

    def unheard_s(self) -> float:
        """How long ago the heartbeat was sent that a controller answered last; 0 before the first."""
        end_ms = self._lease.end_ms
        return 0.0 if end_ms is None else max(0, self._now_ms() - end_ms + self._lease.lease_ms) / 1000

    def _say_leased(self, is_leased: bool) -> None:
        if is_leased != self.is_leased:
            self.is_leased = is_leased
            self.on_lease(is_leased)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


def _check(code: int, wish: str) -> None:
    if code:
        raise Refusal(ErrorCode(code), f"the controller refuses to let this node {wish}: {ErrorCode(code).name}")
