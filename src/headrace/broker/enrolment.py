"""A node's own place in the cluster: it makes itself known, says that it is there, and knows when it is not.

Without an answer for a session's length this node must believe that others have taken over. It stops serving writes
by itself before they do.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.controller import SESSION_MS
from headrace.client.errors import ClientError
from headrace.metadata.liveness import Lease
from headrace.metadata.node_commands import register_node
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicId
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.controller import Controller
    from headrace.broker.peers import Peers
    from headrace.broker.quorum import Quorum
    from headrace.metadata.records import Endpoint
    from headrace.model.names import NodeId
    from headrace.runtime.clock import Clock
    from headrace.wire.api import Message

Answer = TypeVar("Answer", bound="Message")

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 0.4
RETRY_S: Final = 0.1
ANSWER_S: Final = 1.0  # half a session: a controller that is gone must not keep us from asking the next
LANE: Final = "enrolment"


class Place(Protocol):
    """What a node says about itself."""

    node_id: NodeId
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    incarnation: bytes
    directory: bytes


class Enrolment:
    def __init__(
        self,
        place: Place,
        quorum: Quorum,
        controller: Controller,
        peers: Peers | None,
        clock: Clock,
        on_lease: Callable[[bool], None],
    ) -> None:
        """`on_lease` hears whenever this node may serve writes, or may no longer."""
        self.broker_epoch = -1
        self._place = place
        self._quorum = quorum
        self._controller = controller
        self._peers = peers
        self._clock = clock
        self._on_lease = on_lease
        self._lease = Lease(SESSION_MS)
        self.is_leased = False
        """Whether this node may serve writes. Others may lead what it led if not."""
        self._wants_stop = False

    async def register(self) -> None:
        """Begin this life. Tries until there is a controller."""
        while True:
            try:
                self.broker_epoch = await self._register()
            except (ClientError, Refusal) as trouble:
                log.debug("not registered yet: %s", trouble)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _register(self) -> int:
        place = self._place
        if self._quorum.is_leader:
            return await self._quorum.submit(
                lambda image: register_node(
                    image, place.node_id, place.incarnation, place.endpoints, place.rack, directory=place.directory
                )
            )
        request = BrokerRegistrationRequest(
            place.node_id,
            self._quorum.image.cluster_id or "",
            TopicId(place.incarnation),
            [RegisteredListener(it.listener, it.host, it.port, 0) for it in place.endpoints],
            rack=place.rack,
            log_dirs=[TopicId(place.directory)],
        )
        answer = await self._ask_controller(request, BrokerRegistrationResponse)
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
            await asyncio.sleep(HEARTBEAT_S)
            await self._beat()

    async def watch_lease(self) -> None:
        """Stop serving in the moment that the lease ends, also if no answer ever comes."""
        while True:
            end_ms = self._lease.end_ms
            now_ms = self._now_ms()
            if end_ms is not None and now_ms >= end_ms:
                self._say_leased(False)
            left_ms = SESSION_MS if end_ms is None else end_ms - now_ms
            await asyncio.sleep(max(left_ms, 10) / 1000)

    async def leave(self) -> None:
        """A clean stop: others lead first, then this node is fenced."""
        self._wants_stop = True
        await self._beat()
        await self._beat(wants_fence=True)

    async def _beat(self, *, wants_fence: bool = False) -> bool:
        sent_ms = self._now_ms()
        try:
            is_served = await self._say_here(wants_fence=wants_fence)
        except Refusal as refusal:
            if refusal.code is ErrorCode.STALE_BROKER_EPOCH and not wants_fence:
                raise
            log.debug("the heartbeat was refused: %s", refusal)
            return False
        except ClientError as trouble:
            log.debug("the heartbeat was not answered: %s", trouble)
            return False
        if is_served:
            self._lease.renewed(sent_ms)
        self._say_leased(is_served and self._lease.is_valid(self._now_ms()))
        return is_served

    async def _say_here(self, *, wants_fence: bool) -> bool:
        applied_end = self._quorum.applied_end
        if self._quorum.is_leader:
            return await self._controller.heartbeat(
                self._place.node_id,
                self.broker_epoch,
                applied_end,
                wants_fence=wants_fence,
                wants_stop=self._wants_stop,
            )
        request = BrokerHeartbeatRequest(
            self._place.node_id, self.broker_epoch, applied_end, wants_fence, self._wants_stop
        )
        answer = await self._ask_controller(request, BrokerHeartbeatResponse)
        _check(answer.error_code, "be heard")
        return not answer.is_fenced

    async def _ask_controller(self, request: Message, answer: type[Answer]) -> Answer:
        controller = self._quorum.get_leader()
        if controller is None or self._peers is None:
            raise self._quorum.no_controller()
        return await self._peers.ask(controller, request, answer, lane=LANE, timeout_s=ANSWER_S)

    def unheard_s(self) -> float:
        """How long ago the heartbeat was sent that a controller answered last; 0 before the first."""
        end_ms = self._lease.end_ms
        return 0.0 if end_ms is None else max(0, self._now_ms() - end_ms + SESSION_MS) / 1000

    def _say_leased(self, is_leased: bool) -> None:
        if is_leased != self.is_leased:
            self.is_leased = is_leased
            self._on_lease(is_leased)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


def _check(code: int, wish: str) -> None:
    if code:
        raise Refusal(ErrorCode(code), f"the controller refuses to let this node {wish}: {ErrorCode(code).name}")
